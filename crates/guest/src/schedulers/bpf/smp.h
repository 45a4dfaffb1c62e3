// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* What schedulers for several CPUs share. Kernels were compiled for one CPU or for several; so are these programs. */
#pragma once

/* As many as one word of an affinity mask has. */
#define CPUS 64

/* The kernel knows it by this name: one in each value of a map. None of its functions may be called while it is held. */
struct bpf_spin_lock {
	u32 val;
};

/* Counts what is not under a lock. */
#define COUNT(counter) __sync_fetch_and_add(&counters.counter, 1)

static inline u64 bit(u32 cpu) { return 1ULL << (cpu & (CPUS - 1)); }

/*
 * CPUs that a task may run on. The kernel enqueues it anew whenever they change; one that must not migrate for the moment it
 * leaves where it is, and asks nobody (SCX_OPS_ENQ_MIGRATION_DISABLED is not set).
 */
static inline u64 allowed_cpus(struct task_struct *p) { return p->cpus_ptr->bits[0]; }

/*
 * The number of the lowest bit that is set, of at least one: as many as there are below it. Without branches, each of which
 * doubles what the verifier goes through.
 */
static inline u32 lowest_bit(u64 bits)
{
	u64 n = (bits & -bits) - 1;
	n -= n >> 1 & 0x5555555555555555ULL;
	n = (n & 0x3333333333333333ULL) + (n >> 2 & 0x3333333333333333ULL);
	n = (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return n * 0x0101010101010101ULL >> 56;
}
