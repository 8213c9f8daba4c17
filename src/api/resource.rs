//! The macro that makes a root type of a custom resource: type and object metadata around a spec and a status.

/// Declares a namespaced custom resource `$kind` with its plural, its spec and its status type.
///
/// The spec is defaulted when absent: no kind of this group requires one at the top level, so an object
/// without it is in the store of some cluster.
macro_rules! custom_resource {
    ($(#[$doc:meta])* $kind:ident, $plural:literal, $spec:ty, $status:ty) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $kind {
            /// API version and kind; absent in items of a list.
            #[serde(flatten, default)]
            pub types: Option<kube::core::TypeMeta>,
            /// Standard object metadata.
            #[serde(default)]
            pub metadata: kube::core::ObjectMeta,
            /// What is wanted.
            #[serde(default)]
            pub spec: $spec,
            /// What is.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub status: Option<$status>,
        }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind(&(): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }
            fn group(&(): &()) -> std::borrow::Cow<'_, str> {
                $crate::api::GROUP.into()
            }
            fn version(&(): &()) -> std::borrow::Cow<'_, str> {
                $crate::api::VERSION.into()
            }
            fn plural(&(): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(super) use custom_resource;
