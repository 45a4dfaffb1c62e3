// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What these programs use of the kernel. Members are found by their names in the running kernel's BTF (CO-RE), so that a
 * structure here has only what is read; numbers are those of the kernel's interface, sched_ext(7) of Documentation/scheduler.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef int s32;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef s32 __s32;
typedef u64 __u64;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type { BPF_MAP_TYPE_ARRAY = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct mm_struct;
struct completion;
struct thread_info {
	u32 cpu;
};
struct cpumask {
	u64 bits[1];
};
struct sched_entity {
	u64 sum_exec_runtime;
};
struct sched_ext_entity {
	u32 flags;
};
struct task_struct {
	unsigned int __state;
	int pid;
	int static_prio;
	struct mm_struct *mm;
	struct mm_struct *active_mm;
	struct task_struct *real_parent;
	struct completion *vfork_done;
	struct sched_entity se;
	struct sched_ext_entity scx;
	struct thread_info thread_info;
	const struct cpumask *cpus_ptr;
};
struct scx_init_task_args {
	bool fork;
};
struct scx_exit_task_args {
	bool cancelled;
};
struct scx_exit_info {
	int kind;
	const char *reason;
	char *msg;
};
#pragma clang attribute pop

/* Only what is set here: libbpf lays it out as the running kernel has it. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	char name[128];
};

#define SCX_DSQ_GLOBAL  0x8000000000000001ULL
#define SCX_DSQ_LOCAL   0x8000000000000002ULL
#define SCX_DSQ_LOCAL_ON 0xc000000000000000ULL /* or-ed with a CPU */
#define SCX_ENQ_WAKEUP  1ULL
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_TASK_QUEUED 1
#define SCX_SLICE_DFL   20000000ULL

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* The part of a name behind the last three underscores is ours alone. */
bool scx_bpf_dsq_insert___v2___told(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;
void scx_bpf_dsq_insert___silent(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
void scx_bpf_put_cpumask(const struct cpumask *mask) __ksym;
u32 bpf_cpumask_weight(const struct cpumask *mask) __ksym;

/* The only licence that both the kernel and this project know; sources are MIT too. */
char _license[] SEC("license") = "Dual MIT/GPL";

#define OP(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)

/* The verifier's own bound of a loop, `may_goto`: assemblers before LLVM 19 have no name for it. */
#define BOUNDED_OR(label) \
	asm volatile goto("1: .byte 0xe5; .byte 0; .long ((%l[" #label "] - 1b - 8) / 8) & 0xffff; .short 0" :::: label)

/* What the trial's facts tell. The names are in counters.rs, in this order. */
struct counters {
	u64 picks;          /* times that a next task was chosen */
	u64 scanned;        /* tasks looked at for that */
	u64 recalculations; /* times that all tasks got new time at once */
	u64 exchanges;      /* times that the active and the expired array changed places */
	u64 preemptions;    /* tasks that took the CPU from another at their waking */
	u64 refused;        /* tasks that found no place in the table, and ran first in, first out */
	u64 locks;          /* times that a lock was taken, on several CPUs */
	u64 contended;      /* of these, times that another CPU held it */
	u64 migrations;     /* times that a task ran on another CPU than before */
	u64 balances;       /* times that a CPU looked for tasks in the queues of others */
};
struct counters counters SEC(".data.counters");

/* Why the kernel took the scheduler away, in its own words. */
struct ejection {
	char reason[128];
	char message[256];
};
struct ejection ejection SEC(".data.ejection");

static inline void tell_exit(struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(ejection.reason, sizeof(ejection.reason), info->reason);
	bpf_probe_read_kernel_str(ejection.message, sizeof(ejection.message), info->msg);
}

static inline void insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2___told))
		scx_bpf_dsq_insert___v2___told(p, dsq, slice, flags);
	else
		scx_bpf_dsq_insert___silent(p, dsq, slice, flags);
}

/*
 * What is known of tasks lies in an array by their PIDs. Up to 32 CPUs kernels number up to 32768 unless kernel.pid_max says
 * otherwise; whoever has no place is counted, and runs without being scheduled.
 */
#define TASKS 32768

static inline bool has_place(u32 pid)
{
	return pid < TASKS;
}

/* Runs a task that has no place in the table. */
static inline void run_unscheduled(struct task_struct *p, u64 flags)
{
	insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags);
}
