//! The host side of an arm: kernels, images, boot, attach, stop.
//!
//! It never knows what a workload is. Whatever it starts dies with it.

pub mod guest;
