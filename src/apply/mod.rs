//! Writing objects: server-side apply, take-over, ownership, drift, removal. It does not know what the objects mean.
