//! The admission routes: review codec, limits, decisions. It judges nothing itself: verdicts come from `policy` and `inject`.
