{{- define "gpuledger.clusterPod" -}}
{{- $cluster := .Values.cluster -}}
metadata:
  labels: {{- include "gpuledger.labels" (list . "cluster") | nindent 4 }}
  {{- with $cluster.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "gpuledger.fullname" . }}-cluster
  automountServiceAccountToken: true
  enableServiceLinks: false
  {{- with $cluster.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: 10
  securityContext:
    runAsNonRoot: true
    {{- if ne .Values.platform "openshift" }}
    # OpenShift chooses these for each namespace.
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: cluster
      image: {{ include "gpuledger.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - cluster
        {{- if gt (int $cluster.shards) 1 }}
        - --shard=$(POD_NAME)/{{ $cluster.shards }}
        {{- end }}
        {{- if $cluster.policy }}
        - --policy=/etc/gpuledger/policy/policy.yaml
        {{- end }}
        {{- with include "gpuledger.webArgs" . }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with $cluster.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if gt (int $cluster.shards) 1 }}
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
      {{- end }}
      ports:
        - {name: metrics, containerPort: 9441, protocol: TCP}
      {{- include "gpuledger.probes" . | nindent 6 }}
      resources: {{- toYaml $cluster.resources | nindent 8 }}
      securityContext:
        readOnlyRootFilesystem: true
        allowPrivilegeEscalation: false
        capabilities: {drop: [ALL]}
      {{- with include "gpuledger.clusterMounts" . | trim }}
      volumeMounts: {{- . | nindent 8 }}
      {{- end }}
  {{- with include "gpuledger.clusterVolumes" . | trim }}
  volumes: {{- . | nindent 4 }}
  {{- end }}
  {{- with $cluster.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  nodeSelector:
    kubernetes.io/os: linux
    {{- with $cluster.nodeSelector }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $cluster.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "gpuledger.clusterMounts" -}}
{{- if .Values.cluster.policy }}
- {name: policy, mountPath: /etc/gpuledger/policy, readOnly: true}
{{- end }}
{{- include "gpuledger.webMounts" . }}
{{- end -}}

{{- define "gpuledger.clusterVolumes" -}}
{{- if .Values.cluster.policy }}
- {name: policy, configMap: {name: {{ include "gpuledger.fullname" . }}-policy}}
{{- end }}
{{- include "gpuledger.webVolumes" . }}
{{- end -}}
