{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: muster
{{- end }}

{{- define "muster.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end }}
{{- end }}

{{- /* Name, namespace and labels of an object; arguments: root, name, component. */}}
{{- define "muster.metadata" -}}
name: {{ .root.Release.Name }}{{ with .name }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "muster.labels" .root | nindent 2 }}
  {{- with .component }}
  app.kubernetes.io/component: {{ . }}
  {{- end }}
{{- end }}

{{- /* As it is for what is in no namespace. */}}
{{- define "muster.clusterMetadata" -}}
name: {{ .root.Release.Name }}{{ with .name }}-{{ . }}{{ end }}
labels:
  {{- include "muster.labels" .root | nindent 2 }}
{{- end }}

{{- define "muster.selector" -}}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "muster.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "muster.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- /* Labels and notes of the pods of a process; arguments: root, component. */}}
{{- define "muster.podMetadata" -}}
metadata:
  labels:
    {{- include "muster.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  annotations: # another configuration makes other pods
    checksum/configuration: {{ include (print .root.Template.BasePath "/configuration.yaml") .root | sha256sum }}
{{- end }}

{{- define "muster.secretVariable" -}}
- name: {{ .variable }}
  valueFrom: { secretKeyRef: { name: {{ .of.name }}, key: {{ .of.key }} } }
{{- end }}

{{- /* What every process of the portal is told; the Job for migrations makes do with the last part. */}}
{{- define "muster.environment" -}}
- { name: POD_IP, valueFrom: { fieldRef: { fieldPath: status.podIP } } }
- name: HOSTS
  valueFrom: { configMapKeyRef: { name: {{ .Release.Name }}, key: HOSTS } }
- name: MUSTER_ALLOWED_HOSTS # the pod's own address is what probes and Prometheus ask for
  value: $(HOSTS),$(POD_IP)
- { name: MUSTER_ALIVE_FILE, value: /tmp/alive }
{{ include "muster.secrets" . }}
{{- end }}

{{- define "muster.secrets" -}}
- { name: DJANGO_SETTINGS_MODULE, value: portal.settings.prod }
- { name: PYTHONUNBUFFERED, value: "1" }
{{ include "muster.secretVariable" (dict "variable" "MUSTER_SECRET_KEY" "of" .Values.secrets.secretKey) }}
{{ include "muster.secretVariable" (dict "variable" "DATABASE_URL" "of" .Values.secrets.database) }}
{{ include "muster.secretVariable" (dict "variable" "REDIS_URL" "of" .Values.secrets.redis) }}
{{- end }}

{{- define "muster.mounts" -}}
- { name: tmp, mountPath: /tmp }
{{- if .Values.kubeconfigs }}
- { name: kubeconfigs, mountPath: /etc/muster/kubeconfigs, readOnly: true }
{{- end }}
{{- if .Values.files }}
- { name: files, mountPath: /etc/muster/files, readOnly: true }
{{- end }}
{{- end }}

{{- define "muster.volumes" -}}
- { name: tmp, emptyDir: { sizeLimit: 256Mi } }
{{- with .Values.kubeconfigs }}
- { name: kubeconfigs, secret: { secretName: {{ . }}, defaultMode: 0440 } }
{{- end }}
{{- with .Values.files }}
- { name: files, configMap: { name: {{ . }} } }
{{- end }}
{{- end }}

{{- /* One container of the image; arguments: root, name, command, resources, alone (no ConfigMap). */}}
{{- define "muster.container" -}}
- name: {{ .name }}
  image: {{ include "muster.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: {{ toJson .command }}
  {{- if .alone }}
  env:
    {{- include "muster.secrets" .root | nindent 4 }}
  {{- else }}
  envFrom:
    - configMapRef: { name: {{ .root.Release.Name }} }
  env:
    {{- include "muster.environment" .root | nindent 4 }}
  {{- end }}
  resources:
    {{- toYaml .resources | nindent 4 }}
  securityContext:
    {{- include "muster.containerSecurity" .root | nindent 4 }}
  volumeMounts:
    {{- include "muster.mounts" .root | nindent 4 }}
{{- end }}

{{- /* All of a pod but its containers; arguments: root, account ("": none, and no token), grace. */}}
{{- define "muster.pod" -}}
serviceAccountName: {{ if .account }}{{ .root.Release.Name }}-{{ .account }}{{ else }}default{{ end }}
automountServiceAccountToken: {{ not (empty .account) }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .grace }}
securityContext:
  {{- include "muster.podSecurity" .root | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - { name: {{ . }} }
  {{- end }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  {{- include "muster.volumes" .root | nindent 2 }}
{{- end }}

{{- /* Waits until the tables are those of this version: tried again until it ends well. */}}
{{- define "muster.afterMigrations" -}}
initContainers:
  {{- include "muster.container" (dict "root" . "name" "after-migrations" "alone" true "command" (list "python" "manage.py" "migrate" "--check") "resources" .Values.migrations.resources) | nindent 2 }}
{{- end }}

{{- /* Of processes without a port: the loop that works touches a file. */}}
{{- define "muster.lifeProbe" -}}
livenessProbe:
  exec:
    command: [sh, -c, 'test $(($(date +%s) - $(stat -c %Y /tmp/alive))) -lt 300']
  initialDelaySeconds: 60
  periodSeconds: 30
  timeoutSeconds: 10
{{- end }}
