//! Watch.
