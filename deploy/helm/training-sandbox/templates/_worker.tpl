{{/* The pod of the sandbox group: a supervisor, its boxes, and a replica of the gateway. */}}
{{- define "sandbox.worker" -}}
{{- $docker := eq .Values.boxes.kind "docker" -}}
{{- include "sandbox.pod" (dict "root" . "callsApi" false) }}
securityContext:
  {{- include "sandbox.podSecurity" . | nindent 2 }}
  {{- if $docker }}
  # The group of the engine's socket: whoever has it controls the node.
  supplementalGroups: [{{ .Values.boxes.docker.group }}]
  seccompProfile: {type: RuntimeDefault}
  {{- else }}
  # runsc makes its own namespaces without rights; its boxes are filtered by gVisor and by the runner.
  seccompProfile: {{- toYaml .Values.boxes.gvisor.seccompProfile | nindent 4 }}
  appArmorProfile: {type: Unconfined}
  {{- end }}
nodeSelector: {{- toYaml .Values.sandbox.nodeSelector | nindent 2 }}
tolerations: {{- toYaml .Values.sandbox.tolerations | nindent 2 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    # Two supervisors on one machine would count its cores and memory twice.
    whenUnsatisfiable: {{ $docker | ternary "DoNotSchedule" "ScheduleAnyway" }}
    labelSelector:
      matchLabels:
        {{- include "sandbox.selector" . | nindent 8 }}
        app.kubernetes.io/component: sandbox
containers:
  - name: ray-worker
    {{- include "sandbox.container" (dict "root" . "drains" true) | nindent 4 }}
    envFrom:
      - secretRef: {name: {{ .Values.postgresql.secret }}}
    resources: {{- toYaml .Values.sandbox.resources | nindent 6 }}
    ports:
      - {name: serve, containerPort: 8080}
      - {name: metrics, containerPort: 8081}
    {{- include "sandbox.liveness" . | nindent 4 }}
    # Of Serve's front on this node; /readyz would fail on all nodes while the database is away.
    readinessProbe:
      httpGet: {path: /-/healthz, port: serve}
      initialDelaySeconds: 10
      periodSeconds: 5
      timeoutSeconds: 5
      failureThreshold: 3
    volumeMounts:
      {{- include "sandbox.volumeMounts" . | nindent 6 }}
      {{- include "sandbox.workerMounts" . | nindent 6 }}
      {{- with .Values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  {{- include "sandbox.volumes" (dict "root" . "temporary" .Values.sandbox.temporary "sharedMemory" .Values.sandbox.sharedMemory) | nindent 2 }}
  {{- include "sandbox.workerVolumes" . | nindent 2 }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "sandbox.workerMounts" -}}
{{- if eq .Values.boxes.kind "docker" -}}
- {name: state, mountPath: {{ .Values.boxes.docker.stateDir }}}
- {name: engine, mountPath: {{ .Values.boxes.docker.socket }}}
# The logs of builds of task images. The image declares a volume above it, which not all runtimes make writable.
- {name: task-images, mountPath: /var/cache/training-sandbox/task-images}
{{- else -}}
- {name: state, mountPath: /var/lib/sandbox-service}
{{- end -}}
{{- end -}}

{{- define "sandbox.workerVolumes" -}}
{{- if eq .Values.boxes.kind "docker" -}}
- name: state
  hostPath: {path: {{ .Values.boxes.docker.stateDir }}, type: Directory}
- name: engine
  hostPath: {path: {{ .Values.boxes.docker.socket }}, type: Socket}
- name: task-images
  emptyDir: {sizeLimit: {{ .Values.sandbox.temporary }}}
{{- else -}}
- name: state
  emptyDir: {sizeLimit: {{ .Values.sandbox.temporary }}}
{{- end -}}
{{- end -}}
