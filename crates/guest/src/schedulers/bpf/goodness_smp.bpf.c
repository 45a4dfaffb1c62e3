// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The design of Linux 2.4 on several CPUs: one list, and one lock around it that each of them takes to choose, to wake and to
 * put back. Slots, places and CPUs are under that lock too, but for what a task that runs sets of itself.
 */
#include "kernel.h"
#include "smp.h"

static struct bpf_spin_lock list_lock SEC(".data.lock");
static volatile u32 is_held;

static inline void lock_list(void)
{
	u32 was_held = is_held;
	bpf_spin_lock(&list_lock);
	is_held = 1;
	counters.locks++;
	counters.contended += was_held;
}

static inline void unlock_list(void)
{
	is_held = 0;
	bpf_spin_unlock(&list_lock);
}

#include "goodness_list.h"

/* Where a task may run, and where it ran last. */
struct place {
	u64 allowed;
	u32 cpu;
};
static struct place places[TASKS];

struct cpu {
	u32 pid;       /* runs there, or is on its way; 0 for none of ours */
	bool is_idle;
	u64 scheduled; /* when it last chose */
};
static struct cpu cpus[CPUS];
static u64 seen; /* CPUs that have chosen */

static inline struct place *place(u32 pid) { return &places[pid & (TASKS - 1)]; }
static inline struct cpu *cpu_at(u32 cpu) { return &cpus[cpu & (CPUS - 1)]; }

static inline s32 goodness(u32 pid, u64 mm, u32 cpu)
{
	struct slot *s = slot(pid);
	return worth_on(ticks(s), s->nice, s->mm == mm || !s->mm, place(pid)->cpu == cpu);
}

/* That of the task that runs there. */
static inline s32 running_goodness(u32 pid, u32 cpu)
{
	struct slot *s = slot(pid);
	return worth_on(running_ticks(s), s->nice, true, place(pid)->cpu == cpu);
}

/*
 * The best of all that may run on a CPU, or 0 where none is better than `best`, which becomes the goodness of the one that is
 * found.
 */
static __noinline u32 scan(u64 mm, u32 cpu, s32 *best)
{
	u32 found = 0, pid = slot(0)->next;
	s32 most = *best;
	while (pid) {
		BOUNDED_OR(out);
		if (place(pid)->allowed & bit(cpu)) {
			s32 own = goodness(pid, mm, cpu);
			if (own > most) {
				most = own;
				found = pid;
			}
		}
		pid = slot(pid)->next;
	}
out:
	counters.scanned += runnable;
	*best = most;
	return found;
}

/* The idle CPU for a task: where it ran last, or the one that has been idle the longest; -1 for none. */
static inline s32 idle_cpu(u32 pid)
{
	struct place *own = place(pid);
	u64 oldest = ~0ULL;
	s32 found = -1;
	if ((own->allowed & bit(own->cpu)) && cpu_at(own->cpu)->is_idle)
		return own->cpu & (CPUS - 1);
	for (u64 left = seen & own->allowed; left; left &= left - 1) {
		BOUNDED_OR(out);
		u32 cpu = lowest_bit(left) & (CPUS - 1);
		struct cpu *c = cpu_at(cpu);
		if (c->is_idle && c->scheduled < oldest) {
			oldest = c->scheduled;
			found = cpu;
		}
	}
out:
	return found;
}

/* The CPU that a task takes from whom it is better than by most, unless another that waits is better still; -1 for none. */
static inline s32 worst_cpu(u32 pid)
{
	s32 found = -1, most = 0;
	for (u64 left = seen & place(pid)->allowed; left; left &= left - 1) {
		BOUNDED_OR(out);
		u32 cpu = lowest_bit(left) & (CPUS - 1), current_pid = cpu_at(cpu)->pid;
		u64 mm = slot(current_pid)->mm;
		if (!current_pid)
			continue;
		s32 gain = goodness(pid, mm, cpu) - running_goodness(current_pid, cpu);
		if (gain > most) {
			most = gain;
			found = cpu;
		}
	}
out:
	if (found < 0)
		return -1;
	u64 mm = slot(cpu_at(found)->pid)->mm;
	s32 best = goodness(pid, mm, found);
	counters.picks++;
	return scan(mm, found, &best) ? -1 : found;
}

/* Where to run is settled under the lock, in goodness_enqueue. */
s32 OP(goodness_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/* The CPU for a task at once, idle or taken from another; -1 for none. */
static inline s32 free_cpu(u32 pid, u64 *enq_flags)
{
	s32 cpu = idle_cpu(pid);
	if (cpu >= 0) {
		if (!ticks(slot(pid))) {
			/* All that could run there have used up their time. */
			epoch++;
			counters.recalculations++;
		}
		return cpu;
	}
	cpu = worst_cpu(pid);
	if (cpu >= 0) {
		counters.preemptions++;
		*enq_flags |= SCX_ENQ_PREEMPT;
	}
	return cpu;
}

/* 2.4's reschedule_idle: who can run goes to an idle CPU, or takes one from another, or waits. Who yields waits. */
void OP(goodness_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 pid = p->pid;
	struct slot *s = slot(pid);
	bool last = s->yielded;
	u64 allowed = allowed_cpus(p), slice = 0;
	if (!has_place(pid)) {
		run_unscheduled(p, enq_flags);
		return;
	}
	lock_list();
	s->yielded = false;
	place(pid)->allowed = allowed;
	s32 cpu = last ? -1 : free_cpu(pid, &enq_flags);
	if (cpu >= 0) {
		cpu_at(cpu)->pid = pid;
		cpu_at(cpu)->is_idle = false;
		slice = slice_ns(s);
	} else {
		link(s, pid, last);
	}
	unlock_list();
	if (cpu >= 0)
		insert(p, SCX_DSQ_LOCAL_ON | cpu, slice, enq_flags);
}

/* Gives the CPU to a task that has waited. For one whose affinity has changed meanwhile the kernel finds a CPU. */
static inline void run(u32 pid, u64 slice, u32 cpu)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	if (!p)
		return;
	if (allowed_cpus(p) & bit(cpu))
		insert(p, SCX_DSQ_LOCAL, slice, 0);
	else
		run_unscheduled(p, 0);
	bpf_task_release(p);
}

/* Who runs next: one that waits, or 0 for `mine`, which runs, to go on. */
static inline u32 choose(struct slot *mine, u32 my_pid, u64 mm, u32 cpu)
{
	u32 pid = 0;
	for (int round = 0; round < 2; round++) {
		/* Who yields comes after all others, and before nobody. */
		s32 best = !mine ? -1000 : mine->yielded ? -1 : goodness(my_pid, mm, cpu);
		pid = scan(mm, cpu, &best);
		if (best)
			break;
		/* All have used up their time. */
		epoch++;
		counters.recalculations++;
	}
	return pid;
}

void OP(goodness_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 mm = prev ? (u64)prev->active_mm : 0, now = bpf_ktime_get_ns(), slice = 0;
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	struct slot *mine = goes_on && has_place(prev->pid) ? slot(prev->pid) : NULL;
	u64 run_time = mine ? prev->se.sum_exec_runtime : 0;
	u32 my_pid = mine ? prev->pid : 0;
	struct cpu *here = cpu_at(cpu);
	lock_list();
	here->scheduled = now;
	seen |= bit(cpu);
	counters.picks++;
	if (mine)
		charge(mine, run_time);
	u32 pid = choose(mine, my_pid, mm, cpu);
	here->pid = pid ? pid : my_pid;
	if (pid) {
		unlink(slot(pid));
		slice = slice_ns(slot(pid));
	} else if (mine) {
		mine->yielded = false;
		slice = slice_ns(mine);
	}
	here->is_idle = !pid && !goes_on;
	unlock_list();
	if (pid)
		run(pid, slice, cpu);
	else if (mine)
		scx_bpf_task_set_slice(prev, slice);
}

void OP(goodness_running, struct task_struct *p)
{
	u32 pid = p->pid, cpu = p->thread_info.cpu & (CPUS - 1);
	struct slot *s = slot(pid);
	cpu_at(cpu)->is_idle = false;
	if (!has_place(pid))
		return;
	cpu_at(cpu)->pid = pid;
	s->charged = s->ran = p->se.sum_exec_runtime;
	s->mm = (u64)p->mm;
	s->nice = p->static_prio - 120;
	if (place(pid)->cpu != cpu) {
		place(pid)->cpu = cpu;
		COUNT(migrations);
	}
	/* It may have been enqueued anew while a CPU took it out of the list. */
	leave(s);
}

void OP(goodness_stopping, struct task_struct *p, bool is_runnable)
{
	struct cpu *here = cpu_at(p->thread_info.cpu);
	u64 run_time = p->se.sum_exec_runtime;
	u32 pid = p->pid;
	if (!has_place(pid))
		return;
	lock_list();
	if (here->pid == pid)
		here->pid = 0;
	charge(slot(pid), run_time);
	unlock_list();
}

s32 OP(goodness_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (has_place(p->pid)) {
		place(p->pid)->allowed = allowed_cpus(p);
		place(p->pid)->cpu = p->thread_info.cpu;
	}
	return init_slot(p, args);
}

SEC(".struct_ops.link")
struct sched_ext_ops goodness_ops = {
	.select_cpu = (void *)goodness_select_cpu,
	.enqueue = (void *)goodness_enqueue,
	.dequeue = (void *)goodness_dequeue,
	.dispatch = (void *)goodness_dispatch,
	.tick = (void *)goodness_tick,
	.yield = (void *)goodness_yield,
	.running = (void *)goodness_running,
	.stopping = (void *)goodness_stopping,
	.init_task = (void *)goodness_init_task,
	.exit_task = (void *)goodness_exit_task,
	.exit = (void *)goodness_exit,
	.name = "goodness",
};
