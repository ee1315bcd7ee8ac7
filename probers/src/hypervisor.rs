// SPDX-License-Identifier: GPL-2.0-only
//! Which hypervisor this is, and which clocks it announces.
//!
//! Source: CPUID leaves 0x4000_0000 and up, by which hypervisors identify themselves (kernel:
//! `arch/x86/include/asm/cpuid`, `Documentation/virt/kvm/x86/cpuid.rst`). A signal counts as
//! present when the hypervisor announces it here, never because a kernel symbol exists.

/// A hypervisor, as far as it says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hypervisor {
    /// The CPU does not report a hypervisor: bare metal, or one that hides.
    None,
    Kvm,
    Xen,
    HyperV,
    VMware,
    /// QEMU's own emulation, without hardware help.
    Tcg,
    /// One that this list does not know.
    Other,
}

impl Hypervisor {
    /// The name to show to people.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Kvm => "KVM",
            Self::Xen => "Xen",
            Self::HyperV => "Hyper-V",
            Self::VMware => "VMware",
            Self::Tcg => "QEMU TCG",
            Self::Other => "unknown",
        }
    }

    /// The hypervisor with this 12-byte CPUID signature.
    fn from_signature(signature: &[u8; 12]) -> Self {
        match signature {
            b"KVMKVMKVM\0\0\0" => Self::Kvm,
            b"XenVMMXenVMM" => Self::Xen,
            b"Microsoft Hv" => Self::HyperV,
            b"VMwareVMware" => Self::VMware,
            b"TCGTCGTCGTCG" => Self::Tcg,
            _ => Self::Other,
        }
    }
}

/// What the hypervisor announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    pub hypervisor: Hypervisor,
    /// KVM's per-vCPU steal clock (`KVM_FEATURE_STEAL_TIME`).
    pub kvm_steal_clock: bool,
}

/// Ask the CPU. On other architectures than x86-64 nothing is known.
pub fn announced() -> Announced {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid as cpuid;

        const HYPERVISOR_PRESENT: u32 = 1 << 31;
        const KVM_FEATURE_STEAL_TIME: u32 = 1 << 5;

        if cpuid(1).ecx & HYPERVISOR_PRESENT != 0 {
            let leaf = cpuid(0x4000_0000);
            let mut signature = [0u8; 12];
            for (bytes, register) in
                signature.chunks_exact_mut(4).zip([leaf.ebx, leaf.ecx, leaf.edx])
            {
                bytes.copy_from_slice(&register.to_le_bytes());
            }
            let hypervisor = Hypervisor::from_signature(&signature);
            return Announced {
                hypervisor,
                kvm_steal_clock: hypervisor == Hypervisor::Kvm
                    && cpuid(0x4000_0001).eax & KVM_FEATURE_STEAL_TIME != 0,
            };
        }
    }
    Announced { hypervisor: Hypervisor::None, kvm_steal_clock: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_told_apart() {
        assert_eq!(Hypervisor::from_signature(b"KVMKVMKVM\0\0\0"), Hypervisor::Kvm);
        assert_eq!(Hypervisor::from_signature(b"TCGTCGTCGTCG"), Hypervisor::Tcg);
        assert_eq!(Hypervisor::from_signature(b"bhyve bhyve "), Hypervisor::Other);
    }

    #[test]
    fn only_kvm_announces_kvms_steal_clock() {
        let found = announced();
        assert!(!found.kvm_steal_clock || found.hypervisor == Hypervisor::Kvm);
    }
}
