{{- /* At most 44 characters: a StatefulSet's name has 52, because its revisions' labels add 11 to it. */ -}}
{{- define "gpuledger.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 44 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "gpuledger.image" -}}
{{- with .Values.image -}}
{{- .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{- /* Labels that choose pods, and that no upgrade may change. (list $ "node") */ -}}
{{- define "gpuledger.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: gpuledger
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /* Labels of an object, with further ones where there are. (list $ "node" $labels) */ -}}
{{- define "gpuledger.labels" -}}
{{- $root := index . 0 -}}
{{- $further := gt (len .) 2 | ternary (last .) dict -}}
{{ include "gpuledger.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- with merge (dict) ($further | default dict) ($root.Values.labels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Name, namespace and labels of a namespaced object. (list $ "node"), or with further labels as above */ -}}
{{- define "gpuledger.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "gpuledger.fullname" $root }}-{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels: {{- include "gpuledger.labels" . | nindent 2 }}
{{- end -}}

{{- /* Name and labels of an object of the whole cluster. (list $ "node") */ -}}
{{- define "gpuledger.clusterMetadata" -}}
name: {{ include "gpuledger.fullname" (index . 0) }}-{{ index . 1 }}
labels: {{- include "gpuledger.labels" . | nindent 2 }}
{{- end -}}

{{- /* What a platform needs of the node role's pod, where node.driver does not say otherwise. */ -}}
{{- define "gpuledger.driver" -}}
{{- $byPlatform := dict
  "gpu-operator" (dict "runtimeClassName" "nvidia")
  "openshift" (dict "runtimeClassName" "nvidia")
  "k3s" (dict "runtimeClassName" "nvidia")
  "gke" (dict "hostPath" "/home/kubernetes/bin/nvidia") -}}
{{- $preset := get $byPlatform .Values.platform | default dict -}}
runtimeClassName: {{ .Values.node.driver.runtimeClassName | default $preset.runtimeClassName | quote }}
hostPath: {{ .Values.node.driver.hostPath | default $preset.hostPath | quote }}
{{- end -}}

{{- define "gpuledger.webSecret" -}}
{{- if .Values.web.existingSecret -}}
{{- .Values.web.existingSecret }}
{{- else if .Values.web.config -}}
{{- include "gpuledger.fullname" . }}-web
{{- end -}}
{{- end -}}

{{- define "gpuledger.webArgs" -}}
{{- if include "gpuledger.webSecret" . -}}
- --web.config.file=/etc/gpuledger/web/web-config.yml
{{ end }}
{{- if .Values.web.kubernetesAuth -}}
- --web.kubernetes-auth=true
{{- end }}
{{- end -}}

{{- define "gpuledger.webMounts" -}}
{{- if include "gpuledger.webSecret" . }}
- {name: web, mountPath: /etc/gpuledger/web, readOnly: true}
{{- end }}
{{- if .Values.web.certificatesSecret }}
- {name: tls, mountPath: /etc/gpuledger/tls, readOnly: true}
{{- end }}
{{- end -}}

{{- /* Readable for the group, because the cluster role is not root. */ -}}
{{- define "gpuledger.webVolumes" -}}
{{- with include "gpuledger.webSecret" . }}
- {name: web, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- with .Values.web.certificatesSecret }}
- {name: tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- end -}}

{{- define "gpuledger.probes" -}}
{{- if eq .Values.web.probes "TCP" -}}
livenessProbe:
  tcpSocket: {port: metrics}
  periodSeconds: 10
readinessProbe:
  tcpSocket: {port: metrics}
  periodSeconds: 5
{{- else -}}
livenessProbe:
  httpGet: {path: /healthz, port: metrics, scheme: {{ .Values.web.probes }}}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: metrics, scheme: {{ .Values.web.probes }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}
{{- end -}}

{{- /* To ask the API server who is scraping, and whether they may. */ -}}
{{- define "gpuledger.authRules" -}}
# create: the API checks a scraper's token by a TokenReview.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
# create: and by a SubjectAccessReview whether its owner may get /metrics.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}
