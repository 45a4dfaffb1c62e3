// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* One queue for several CPUs, first in, first out. Who can run goes to an idle CPU where there is one. */
#include "kernel.h"
#include "smp.h"

static u64 idle;
static u8 ran_on[TASKS]; /* one more than the CPU; 0 before the first */

s32 OP(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void OP(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 allowed = idle & allowed_cpus(p), last = bit(p->thread_info.cpu);
	COUNT(picks);
	u64 one = allowed & last ? last : allowed & -allowed;
	/* Another task may have been quicker to take it. */
	if (one && (__sync_fetch_and_and(&idle, ~one) & one))
		insert(p, SCX_DSQ_LOCAL_ON | lowest_bit(one), SCX_SLICE_DFL, enq_flags);
	else
		insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

/* Called when the queue is empty. */
void OP(fifo_dispatch, s32 cpu, struct task_struct *prev)
{
	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED))
		__sync_fetch_and_or(&idle, bit(cpu));
}

void OP(fifo_running, struct task_struct *p)
{
	u32 cpu = p->thread_info.cpu;
	u8 *last = &ran_on[p->pid & (TASKS - 1)], here = (cpu & (CPUS - 1)) + 1;
	__sync_fetch_and_and(&idle, ~bit(cpu));
	if (*last && *last != here)
		COUNT(migrations);
	*last = here;
}

s32 OP(fifo_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	ran_on[p->pid & (TASKS - 1)] = 0;
	return 0;
}

void OP(fifo_exit, struct scx_exit_info *info)
{
	tell_exit(info);
}

SEC(".struct_ops.link")
struct sched_ext_ops fifo_ops = {
	.select_cpu = (void *)fifo_select_cpu,
	.enqueue = (void *)fifo_enqueue,
	.dispatch = (void *)fifo_dispatch,
	.running = (void *)fifo_running,
	.init_task = (void *)fifo_init_task,
	.exit = (void *)fifo_exit,
	.name = "fifo",
};
