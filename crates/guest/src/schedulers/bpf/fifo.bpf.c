// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * One queue, first in, first out: the framework's own, so what is left is the cost of the framework. Who enters it is chosen
 * once, by the framework, so picks are counted there: asking for more calls would cost what they cost.
 */
#include "kernel.h"

s32 OP(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void OP(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	counters.picks++;
	insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void OP(fifo_exit, struct scx_exit_info *info)
{
	tell_exit(info);
}

SEC(".struct_ops.link")
struct sched_ext_ops fifo_ops = {
	.select_cpu = (void *)fifo_select_cpu,
	.enqueue = (void *)fifo_enqueue,
	.exit = (void *)fifo_exit,
	.name = "fifo",
};
