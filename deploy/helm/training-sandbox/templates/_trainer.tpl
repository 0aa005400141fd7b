{{/* A pod of the trainer's cluster; takes root, container, resources and gpus (0 on the head). */}}
{{- define "sandbox.trainerPod" -}}
{{- $trainer := .root.Values.trainer -}}
{{- $gpus := dict $trainer.gpuResource (.gpus | toString) -}}
{{- $resources := deepCopy .resources -}}
{{- if .gpus -}}
{{- $resources = mergeOverwrite $resources (dict "limits" $gpus "requests" $gpus) -}}
{{- end -}}
{{- include "sandbox.pod" (dict "root" .root "callsApi" false) }}
securityContext:
  {{- include "sandbox.podSecurity" .root | nindent 2 }}
  seccompProfile: {type: RuntimeDefault}
{{- if .gpus }}
nodeSelector: {{- toYaml $trainer.nodeSelector | nindent 2 }}
tolerations: {{- toYaml $trainer.tolerations | nindent 2 }}
{{- end }}
containers:
  - name: {{ .container }}
    image: "{{ $trainer.image.repository }}:{{ $trainer.image.tag }}"
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    resources: {{- toYaml $resources | nindent 6 }}
    ports:
      - {name: metrics, containerPort: 8081}
    {{- include "sandbox.liveness" .root | nindent 4 }}
    volumeMounts:
      - {name: temporary, mountPath: /tmp}
      - {name: shared-memory, mountPath: /dev/shm}
      # Also the home, with the caches of engines and compilers.
      - {name: runs, mountPath: /srv/runs}
volumes:
  - name: temporary
    emptyDir: {}
  - name: shared-memory
    emptyDir: {medium: Memory, sizeLimit: {{ $trainer.sharedMemory }}}
  - name: runs
    {{- if $trainer.runsClaim }}
    persistentVolumeClaim: {claimName: {{ $trainer.runsClaim }}}
    {{- else }}
    emptyDir: {}
    {{- end }}
{{- end -}}
