{{/* The name of the Deployment, the ServiceAccount and the roles: made as the reference chart makes it, so that a release of
it can be upgraded in place. */}}
{{- define "sriov-operator.fullname" -}}
{{- $given := coalesce .Values.operator.fullnameOverride .Values.fullnameOverride -}}
{{- $chart := coalesce .Values.operator.nameOverride .Values.nameOverride "sriov-network-operator" -}}
{{- if $given -}}
{{- $given | trunc 63 | trimSuffix "-" -}}
{{- else if contains $chart .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $chart | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels of everything. Not app.kubernetes.io/managed-by: that one names who may change an object at run time. */}}
{{- define "sriov-operator.labels" -}}
app.kubernetes.io/name: sriov-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "sriov-operator.image" -}}
{{- .Values.images.operator | default (printf "sriov-operator:%s" .Chart.AppVersion) -}}
{{- end -}}

{{- define "sriov-operator.webhookPort" -}}
{{- .Values.operator.admissionControllers.port | default (ternary 9643 6443 .Values.operator.hostNetwork) -}}
{{- end -}}

{{- define "sriov-operator.probePort" -}}
{{- ternary 9644 8081 .Values.operator.hostNetwork -}}
{{- end -}}

{{- define "sriov-operator.metricsAddress" -}}
{{- .Values.operator.metricsBindAddress | default (ternary ":9645" ":8080" .Values.operator.hostNetwork) -}}
{{- end -}}

{{/* Empty when metrics are switched off. */}}
{{- define "sriov-operator.metricsPort" -}}
{{- $address := include "sriov-operator.metricsAddress" . -}}
{{- if ne $address "0" -}}{{- regexFind "[0-9]+$" $address -}}{{- end -}}
{{- end -}}

{{/* The mode of the certificates, as the operator derives it from its environment. */}}
{{- define "sriov-operator.certificateMode" -}}
{{- $certificates := .Values.operator.admissionControllers.certificates -}}
{{- if eq .Values.operator.clusterType "openshift" -}}service-ca
{{- else if $certificates.certManager.enabled -}}cert-manager
{{- else if $certificates.custom.enabled -}}provided
{{- else -}}self-signed
{{- end -}}
{{- end -}}

{{/* A subject of bindings: a ServiceAccount of the release's namespace. Takes a dict of name and root. */}}
{{- define "sriov-operator.subject" -}}
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* What a container needs to run under the Pod Security level "restricted". */}}
{{- define "sriov-operator.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "sriov-operator.podSecurity" -}}
# No user id: the image has one, and OpenShift gives one from the namespace's range.
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Empty when there are none. */}}
{{- define "sriov-operator.pullSecrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "sriov-operator.cleanupName" -}}
{{- include "sriov-operator.fullname" . | trunc 50 | trimSuffix "-" -}}-cleanup
{{- end -}}

{{/* Annotations of what the cleanup needs before it runs. */}}
{{- define "sriov-operator.cleanupHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: "0"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
