//! The custom resources of group `sriovnetwork.openshift.io/v1`: one file a kind. No I/O.
