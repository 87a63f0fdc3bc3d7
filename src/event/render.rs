//! The event as text.
