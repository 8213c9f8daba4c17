{{/* What cannot work is refused here, in words, before anything is written. The lookups find nothing under "helm template". */}}
{{- define "sriov-operator.refusals" -}}
{{- $certificates := .Values.operator.admissionControllers.certificates -}}
{{- if and $certificates.certManager.enabled $certificates.custom.enabled -}}
{{- fail "operator.admissionControllers.certificates: certManager.enabled and custom.enabled are both true; switch one of them off" -}}
{{- end -}}
{{- if and $certificates.certManager.generateSelfSigned (not $certificates.certManager.enabled) -}}
{{- fail "operator.admissionControllers.certificates.certManager.generateSelfSigned is true, but certManager.enabled is not" -}}
{{- end -}}
{{- if eq $certificates.secretNames.operator $certificates.secretNames.injector -}}
{{- fail (printf "operator.admissionControllers.certificates.secretNames: both are %q; each webhook has a Secret of its own" $certificates.secretNames.operator) -}}
{{- end -}}
{{- range $name := list "operator" "injector" -}}
{{- $pair := index $certificates.custom $name -}}
{{- if and $certificates.custom.enabled (ne (empty $pair.tlsCrt) (empty $pair.tlsKey)) -}}
{{- fail (printf "operator.admissionControllers.certificates.custom.%s: tlsCrt and tlsKey go together; leave both empty when the Secret is there already" $name) -}}
{{- end -}}
{{- if and $certificates.custom.enabled $pair.tlsCrt (not $pair.caCrt) -}}
{{- fail (printf "operator.admissionControllers.certificates.custom.%s.caCrt is empty; it must be the PEM certificates that verify tlsCrt" $name) -}}
{{- end -}}
{{- end -}}
{{- include "sriov-operator.refuseSecond" . -}}
{{- end -}}

{{/* There is one set of webhook configurations and custom resource definitions a cluster, so there is one installation. */}}
{{- define "sriov-operator.refuseSecond" -}}
{{- $here := .Release.Namespace -}}
{{- $release := .Release.Name -}}
{{- range $kind, $name := dict "ValidatingWebhookConfiguration" "sriov-operator-webhook-config" "MutatingWebhookConfiguration" "sriov-operator-webhook-config,network-resources-injector-config" -}}
{{- range $name := splitList "," $name -}}
{{- range (lookup "admissionregistration.k8s.io/v1" $kind "" $name).webhooks -}}
{{- $there := dig "clientConfig" "service" "namespace" "" . -}}
{{- if and $there (ne $there $here) -}}
{{- fail (printf "the cluster has an SR-IOV network operator in namespace %s already (%s %s calls it): a cluster takes one. Upgrade that one, or uninstall it first" $there $kind $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- if eq (get $labels "app.kubernetes.io/name") "sriov-operator" -}}
{{- range .subjects -}}
{{- $other := get $annotations "meta.helm.sh/release-name" | default "kubectl apply" -}}
{{- if or (ne .namespace $here) (ne $other $release) -}}
{{- fail (printf "the cluster has an sriov-operator in namespace %s already, installed by %q: a cluster takes one. Upgrade that one, or uninstall it first" .namespace $other) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
