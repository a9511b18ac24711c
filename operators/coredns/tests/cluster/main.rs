//! The operator as a process, with exactly the rights it ships with, on a real control plane with simulated nodes.

mod adopt;
mod bed;
mod crash;
mod drift;
mod install;
mod kubeadm;
mod outages;
mod refuse;
mod rights;
mod takeover;
