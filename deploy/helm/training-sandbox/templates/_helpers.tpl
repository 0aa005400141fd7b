{{/* Fail for values that cannot work, and with one message that names every value which is missing. */}}
{{- define "sandbox.check" -}}
{{- include "sandbox.checkConfig" . -}}
{{- include "sandbox.checkExtras" . -}}
{{- include "sandbox.checkReplicas" .Values.sandbox -}}
{{- include "sandbox.checkGracePeriod" .Values -}}
{{- $missing := list -}}
{{- if not .Values.postgresql.secret -}}
{{- $missing = append $missing "postgresql.secret (a secret with PGHOST, PGDATABASE, PGUSER and PGPASSWORD)" -}}
{{- end -}}
{{- if not (dig "server" "api_keys" dict .Values.config) -}}
{{- $missing = append $missing "config.server.api_keys (made by: sandbox-service keys new TENANT)" -}}
{{- end -}}
{{- if and (eq .Values.boxes.kind "docker") (kindIs "invalid" .Values.boxes.docker.group) -}}
{{- $missing = append $missing "boxes.docker.group (the id of the group of the engine's socket on the nodes)" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.postgresql.peers) -}}
{{- $missing = append $missing "postgresql.peers (where the network policy lets pods connect to, or networkPolicy.enabled=false)" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled .Values.ray.redis.address (not .Values.ray.redis.peers) -}}
{{- $missing = append $missing "ray.redis.peers (where the network policy lets pods connect to, or networkPolicy.enabled=false)" -}}
{{- end -}}
{{- if and .Values.sandbox.autoscaling .Values.networkPolicy.enabled (not .Values.networkPolicy.apiServer) -}}
{{- $missing = append $missing "networkPolicy.apiServer (where the autoscaler reaches the API of Kubernetes)" -}}
{{- end -}}
{{- if $missing -}}
{{- fail (printf "these values have to be set: %s" (join "; " $missing)) -}}
{{- end -}}
{{- end -}}

{{/* Fail for settings that follow from other values. */}}
{{- define "sandbox.checkConfig" -}}
{{- $server := list "server.host" "server.port" "server.insecure" -}}
{{- $fleet := list "fleet.node_resource" "fleet.scaling.enabled" "fleet.scaling.min_nodes" "fleet.scaling.max_nodes" -}}
{{- $boxes := list "sandbox.kind" "sandbox.state_dir" "sandbox.docker_host" "sandbox.runsc" "sandbox.gvisor_root" -}}
{{- range $key := concat $server $fleet $boxes (list "store.url") -}}
{{- $parts := splitList "." $key -}}
{{- $branch := $.Values.config -}}
{{- range initial $parts -}}
{{- $branch = get $branch . | default dict -}}
{{- end -}}
{{- if hasKey $branch (last $parts) -}}
{{- fail (printf "config.%s is the chart's: see boxes, sandbox and postgresql in values.yaml" $key) -}}
{{- end -}}
{{- end -}}
{{- $packages := dig "environments" "packages_dir" "" .Values.config -}}
{{- if and .Values.environmentsClaim $packages -}}
{{- $claimed := include "sandbox.environmentsFolder" . -}}
{{- if not (hasPrefix (printf "%s/" $claimed) (printf "%s/" (clean $packages))) -}}
{{- fail (printf "config.environments.packages_dir is %s, which would be used in place of environmentsClaim: set one of the two, or a folder of the claim, which is at %s" $packages $claimed) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fail for volumes and mounts of the operator's that are in the way of the pods' own, or of none. */}}
{{- define "sandbox.checkExtras" -}}
{{- $taken := list "ray-logs" "shared-mem" -}}
{{- range list (include "sandbox.volumes" (dict "root" . "temporary" "" "sharedMemory" "")) (include "sandbox.workerVolumes" .) -}}
{{- range fromYamlArray . -}}
{{- $taken = append $taken .name -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range .Values.extraVolumes -}}
{{- if has .name $taken -}}
{{- fail (printf "extraVolumes has %s, which is a volume of the chart or of KubeRay: choose another name" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $own := concat (include "sandbox.volumeMounts" . | fromYamlArray) (include "sandbox.workerMounts" . | fromYamlArray) -}}
{{- range $extra := .Values.extraVolumeMounts -}}
{{- if not (has $extra.name $names) -}}
{{- fail (printf "extraVolumeMounts has %s, which is none of extraVolumes" $extra.name) -}}
{{- end -}}
{{- $path := printf "%s/" (clean $extra.mountPath | trimSuffix "/") -}}
{{- range $own -}}
{{- $held := printf "%s/" (clean .mountPath) -}}
{{- if or (hasPrefix $path $held) (hasPrefix $held $path) -}}
{{- fail (printf "extraVolumeMounts has %s, which is, contains or is in %s, a folder of the chart: choose another path, such as one in /srv" $extra.mountPath .mountPath) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fail for numbers of pods that KubeRay would change to one between the bounds; takes the values of the group. */}}
{{- define "sandbox.checkReplicas" -}}
{{- $least := int .minReplicas -}}
{{- $most := int .maxReplicas -}}
{{- $count := int .replicas -}}
{{- if and .autoscaling (lt $most (max 1 $least)) -}}
{{- fail (printf "sandbox.maxReplicas is %d: it has to be at least 1 and at least sandbox.minReplicas (%d)" $most $least) -}}
{{- else if and (not .autoscaling) (or (lt $count $least) (gt $count $most)) -}}
{{- fail (printf "sandbox.replicas is %d: it has to be from sandbox.minReplicas (%d) to sandbox.maxReplicas (%d)" $count $least $most) -}}
{{- end -}}
{{- end -}}

{{/* Fail for pods that would be killed before they are empty; the defaults are those of the service. */}}
{{- define "sandbox.checkGracePeriod" -}}
{{- $deadline := get .config "deadline" | default dict -}}
{{- $least := 60.0 -}}
{{- range $name, $default := dict "node_drain_s" 60 "drain_s" 20 "release_s" 10 -}}
{{- $least = addf $least (get $deadline $name | default $default) -}}
{{- end -}}
{{- if lt (float64 .terminationGracePeriodSeconds) $least -}}
{{- fail (printf "terminationGracePeriodSeconds is %v: it has to be at least %v, the sum of node_drain_s, drain_s and release_s of config.deadline and a minute" .terminationGracePeriodSeconds $least) -}}
{{- end -}}
{{- end -}}

{{- define "sandbox.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "sandbox.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "sandbox.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The sandbox pods that are always there. */}}
{{- define "sandbox.pods" -}}
{{- ternary .Values.sandbox.minReplicas .Values.sandbox.replicas .Values.sandbox.autoscaling | int | max 1 -}}
{{- end -}}

{{/* Replicas of the gateway: one for each of these pods, since a pod without one has no front and is never ready. */}}
{{- define "sandbox.gateways" -}}
{{- dig "server" "replicas" (include "sandbox.pods" .) .Values.config | int -}}
{{- end -}}

{{/* The configuration tree: the operator's, and what follows from the chart. */}}
{{- define "sandbox.config" -}}
{{- $boxes := dict "kind" .Values.boxes.kind -}}
{{- if eq .Values.boxes.kind "docker" -}}
{{- $_ := set $boxes "state_dir" .Values.boxes.docker.stateDir -}}
{{- $_ := set $boxes "docker_host" (printf "unix://%s" .Values.boxes.docker.socket) -}}
{{- else -}}
{{- $_ := set $boxes "state_dir" "/var/lib/sandbox-service/state" -}}
{{- $_ := set $boxes "runsc" .Values.boxes.gvisor.runsc -}}
{{- $_ := set $boxes "gvisor_root" .Values.boxes.gvisor.root -}}
{{- end -}}
{{- $fleet := dict "node_resource" "sandbox_node" -}}
{{- if .Values.sandbox.autoscaling -}}
{{- $least := max 1 (int .Values.sandbox.minReplicas) -}}
{{- $_ := set $fleet "scaling" (dict "enabled" true "min_nodes" $least "max_nodes" (int .Values.sandbox.maxReplicas)) -}}
{{- end -}}
{{- $own := dict "fleet" $fleet "server" (dict "host" "0.0.0.0" "port" 8080 "replicas" (include "sandbox.gateways" . | int)) "sandbox" $boxes "store" (dict "url" "postgresql+psycopg://") -}}
{{- mergeOverwrite (deepCopy .Values.config) $own | toYaml -}}
{{- end -}}

{{/* Bytes of Ray's object store: what `serve` gives it. Ray's own choice exceeds /dev/shm, and so would be a file. */}}
{{- define "sandbox.objectStore" -}}
{{- dig "fleet" "object_store_mib" 100 .Values.config | int | mul 1048576 -}}
{{- end -}}

{{- define "sandbox.auth" -}}
mode: token
{{- if .Values.ray.tokenSecret }}
secretName: {{ .Values.ray.tokenSecret }}
{{- end }}
{{- end -}}

{{- define "sandbox.redis" -}}
{{- if .Values.ray.redis.address -}}
gcsFaultToleranceOptions:
  redisAddress: {{ .Values.ray.redis.address | quote }}
  {{- if .Values.ray.redis.passwordSecret }}
  redisPassword:
    valueFrom:
      secretKeyRef:
        name: {{ .Values.ray.redis.passwordSecret }}
        key: {{ .Values.ray.redis.passwordKey }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The tag of the service's image: of this release, with runsc and the boxes' root folder for gVisor boxes. */}}
{{- define "sandbox.tag" -}}
{{- $built := ternary (printf "%s-gvisor" .Chart.AppVersion) .Chart.AppVersion (eq .Values.boxes.kind "gvisor") -}}
{{- .Values.image.tag | default $built -}}
{{- end -}}

{{/* What every container of Ray has in common; takes the root, and whether SIGTERM empties the node. */}}
{{- define "sandbox.container" -}}
image: "{{ .root.Values.image.repository }}:{{ include "sandbox.tag" .root }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
# KubeRay's command, in the environment of the HTTP front that refuses what `serve` refuses.
command: ["/bin/bash", "-c"]
args:
  - >-
    variables=$(sandbox-service node-env --cluster /run/sandbox-service/node --config /etc/sandbox-service/service.toml) &&
    eval "$variables" &&
    exec {{ if .drains }}sandbox-service node --config /etc/sandbox-service/service.toml -- {{ end }}/bin/bash -c "$KUBERAY_GEN_RAY_START_CMD"
env:
  # Ray's own niceness of 15 would put supervisors and gateway behind the programs of agents, at 0.
  - {name: RAY_worker_niceness, value: "0"}
  {{- with .root.Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* What every pod has in common; takes the root, and whether the pod calls the API of Kubernetes. */}}
{{- define "sandbox.pod" -}}
serviceAccountName: {{ include "sandbox.name" .root }}
automountServiceAccountToken: {{ .callsApi }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "sandbox.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
{{- end -}}

{{/* Where the pods have environmentsClaim. */}}
{{- define "sandbox.environmentsFolder" -}}
/var/cache/training-sandbox/environments
{{- end -}}

{{- define "sandbox.volumeMounts" -}}
- {name: config, mountPath: /etc/sandbox-service, readOnly: true}
- {name: run, mountPath: /run/sandbox-service}
- {name: temporary, mountPath: /tmp}
- {name: shared-memory, mountPath: /dev/shm}
{{- if .Values.environmentsClaim }}
- {name: environments, mountPath: {{ include "sandbox.environmentsFolder" . }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "sandbox.volumes" -}}
- name: config
  secret:
    secretName: {{ include "sandbox.name" .root }}-config
    defaultMode: 0440
- name: run
  emptyDir: {sizeLimit: 64Mi}
- name: temporary
  emptyDir: {sizeLimit: {{ .temporary }}}
- name: shared-memory
  emptyDir: {medium: Memory, sizeLimit: {{ .sharedMemory }}}
{{- if .root.Values.environmentsClaim }}
- name: environments
  persistentVolumeClaim: {claimName: {{ .root.Values.environmentsClaim }}, readOnly: true}
{{- end }}
{{- end -}}

{{/* Of the raylet, by the agent of each node. */}}
{{- define "sandbox.liveness" -}}
livenessProbe:
  httpGet: {path: /api/local_raylet_healthz, port: 52365}
  initialDelaySeconds: 60
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 12
{{- end -}}
