//! What the cluster is: Kubernetes, OpenShift, Hypershift, and its TLS profile.
