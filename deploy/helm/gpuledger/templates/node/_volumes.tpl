{{- define "gpuledger.nodeMounts" -}}
{{- $driver := include "gpuledger.driver" . | fromYaml -}}
{{- if .Values.node.podLogs }}
- {name: pod-logs, mountPath: /var/log/pods, readOnly: true}
- {name: container-logs, mountPath: /var/log/containers, readOnly: true}
{{- end }}
{{- if .Values.node.podResources }}
- {name: pod-resources, mountPath: /var/lib/kubelet/pod-resources, readOnly: true}
{{- end }}
{{- if $driver.hostPath }}
- {name: driver, mountPath: /usr/local/nvidia, readOnly: true}
{{- else if eq .Values.node.driver.devices "volume-mounts" }}
- {name: all-devices, mountPath: /var/run/nvidia-container-devices/all, readOnly: true}
{{- end }}
{{- include "gpuledger.webMounts" . }}
{{- with .Values.node.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpuledger.nodeVolumes" -}}
{{- $driver := include "gpuledger.driver" . | fromYaml -}}
{{- if .Values.node.podLogs }}
# Folders' and links' names tell pods and containers where the API is away; no log is read.
- {name: pod-logs, hostPath: {path: /var/log/pods, type: Directory}}
- {name: container-logs, hostPath: {path: /var/log/containers, type: Directory}}
{{- end }}
{{- if .Values.node.podResources }}
# The folder, because the kubelet makes the socket in it anew when it starts.
- {name: pod-resources, hostPath: {path: {{ .Values.node.podResourcesPath }}, type: Directory}}
{{- end }}
{{- if $driver.hostPath }}
# libnvidia-ml.so.1, of the driver that runs on this node.
- {name: driver, hostPath: {path: {{ $driver.hostPath }}, type: Directory}}
{{- else if eq .Values.node.driver.devices "volume-mounts" }}
# No file of the node is looked at: the place where this is mounted tells the toolkit to bring in all GPUs.
- {name: all-devices, hostPath: {path: /dev/null, type: CharDevice}}
{{- end }}
{{- include "gpuledger.webVolumes" . }}
{{- with .Values.node.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
