{{/* The operator's environment as YAML: variable to its value, or to where the value is from. A mapping, so that each variable
is set once, whatever operator.extraEnv adds. */}}
{{- define "sriov-operator.environment" -}}
{{- $operator := .Values.operator -}}
{{- $images := .Values.images -}}
{{- $certificates := $operator.admissionControllers.certificates -}}
{{- $exporter := $operator.metricsExporter -}}
NAMESPACE:
  fieldRef:
    fieldPath: metadata.namespace
POD_NAME:
  fieldRef:
    fieldPath: metadata.name
CLUSTER_TYPE: {{ $operator.clusterType | quote }}
RESOURCE_PREFIX: {{ $operator.resourcePrefix | quote }}
RELEASEVERSION: {{ .Chart.AppVersion | quote }}
WEBHOOK_BIND_ADDRESS: {{ printf ":%s" (include "sriov-operator.webhookPort" .) | quote }}
HEALTH_PROBE_BIND_ADDRESS: {{ printf ":%s" (include "sriov-operator.probePort" .) | quote }}
METRICS_BIND_ADDRESS: {{ include "sriov-operator.metricsAddress" . | quote }}
ADMISSION_SERVING: {{ $operator.admissionControllers.serving | quote }}
TLS_CIPHER_SUITES: {{ $operator.tls.cipherSuites | quote }}
TLS_MIN_VERSION: {{ $operator.tls.minVersion | quote }}
TLS_CURVE_PREFERENCES: {{ $operator.tls.curvePreferences | quote }}
IMAGE_PULL_SECRETS: {{ join "," .Values.imagePullSecrets | quote }}
SRIOV_CNI_BIN_PATH: {{ $operator.cniBinPath | quote }}
SRIOV_NETWORK_CONFIG_DAEMON_IMAGE: {{ $images.sriovConfigDaemon | quote }}
SRIOV_CNI_IMAGE: {{ $images.sriovCni | quote }}
SRIOV_INFINIBAND_CNI_IMAGE: {{ $images.ibSriovCni | quote }}
OVS_CNI_IMAGE: {{ $images.ovsCni | quote }}
RDMA_CNI_IMAGE: {{ $images.rdmaCni | quote }}
SRIOV_DEVICE_PLUGIN_IMAGE: {{ $images.sriovDevicePlugin | quote }}
NETWORK_RESOURCES_INJECTOR_IMAGE: {{ $images.resourcesInjector | default (include "sriov-operator.image" .) | quote }}
SRIOV_NETWORK_WEBHOOK_IMAGE: {{ $images.webhook | default (include "sriov-operator.image" .) | quote }}
USE_EXTERNAL_DRAINER: {{ $operator.externalDrainer.enabled | quote }}
STALE_NODE_STATE_CLEANUP_DELAY_MINUTES: {{ $operator.staleNodeStateCleanupDelayMinutes | quote }}
OPERATOR_WEBHOOK_NETWORK_POLICY_PORT: {{ $operator.admissionControllers.networkPolicy.operator.port | quote }}
INJECTOR_WEBHOOK_NETWORK_POLICY_PORT: {{ $operator.admissionControllers.networkPolicy.injector.port | quote }}
ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_SECRET_NAME: {{ $certificates.secretNames.operator | quote }}
ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_SECRET_NAME: {{ $certificates.secretNames.injector | quote }}
{{- $mode := include "sriov-operator.certificateMode" . }}
{{- if eq $mode "cert-manager" }}
ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED: "true"
{{- else if eq $mode "provided" }}
ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT:
{{- include "sriov-operator.givenBundle" (dict "pair" $certificates.custom.operator "secret" $certificates.secretNames.operator) | nindent 2 }}
ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT:
{{- include "sriov-operator.givenBundle" (dict "pair" $certificates.custom.injector "secret" $certificates.secretNames.injector) | nindent 2 }}
{{- end }}
METRICS_EXPORTER_IMAGE: {{ $images.metricsExporter | quote }}
METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE: {{ $images.metricsExporterKubeRbacProxy | quote }}
METRICS_EXPORTER_PORT: {{ $exporter.port | quote }}
METRICS_EXPORTER_SECRET_NAME: {{ $exporter.certificates.secretName | quote }}
METRICS_EXPORTER_PROMETHEUS_OPERATOR_ENABLED: {{ $exporter.prometheusOperator.enabled | quote }}
{{- with $exporter.prometheusOperator }}
{{- if .enabled }}
METRICS_EXPORTER_PROMETHEUS_OPERATOR_SERVICE_ACCOUNT: {{ .serviceAccount | quote }}
METRICS_EXPORTER_PROMETHEUS_OPERATOR_NAMESPACE: {{ .namespace | quote }}
METRICS_EXPORTER_PROMETHEUS_DEPLOY_RULES: {{ .deployRules | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A CA bundle of the values, or the one in the pair's Secret. */}}
{{- define "sriov-operator.givenBundle" -}}
{{- if .pair.caCrt -}}
{{ .pair.caCrt | quote }}
{{- else -}}
secretKeyRef:
  name: {{ .secret }}
  key: ca.crt
{{- end -}}
{{- end -}}
