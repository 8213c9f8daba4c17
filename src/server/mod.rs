//! The TLS listener, certificate resolver, health and metrics endpoints.
