// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The design of Linux 2.6.0 on several CPUs: a run queue for each, under a lock of its own, and load_balance, by which a CPU
 * takes tasks from the busiest of the others. A slot belongs to whoever holds the lock of the queue that it is in; what is in
 * none, to the CPU that runs or wakes it. No two locks are ever held at once.
 */
#include "kernel.h"
#include "smp.h"

static u32 online; /* it does not change: the kernel takes a scheduler away when a CPU comes or goes */

static inline u32 online_cpus(void) { return online; }

#include "o1_slots.h"

struct runqueue {
	struct bpf_spin_lock lock;
	u32 is_held;
	u32 active, current_pid, current_prio;
	u32 waiting;     /* in both arrays */
	u64 bits[2], expired_at, balanced_at;
	u32 loads[CPUS]; /* of all CPUs, as this one saw them last */
	struct queue queues[2][64];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS);
	__type(key, u32);
	__type(value, struct runqueue);
} runqueues SEC(".maps");

/* What several CPUs have to know of a task beside its slot. */
struct place {
	u64 allowed;
	u64 touched;         /* when it last ran, or woke */
	u32 owner;           /* one more than the CPU in whose run queue it is; 0 for none */
	u32 prio;            /* there */
	u32 cpu;             /* it ran there last */
	bool is_interrupted; /* for its CPU to give a task to another, after which it goes on */
};
static struct place places[TASKS];
static u64 idle, seen; /* CPUs that have nothing to run, and all that have chosen */

static inline struct place *place(u32 pid) { return &places[pid & (TASKS - 1)]; }

static inline struct runqueue *runqueue(u32 cpu)
{
	return bpf_map_lookup_elem(&runqueues, &cpu);
}

static inline void lock(struct runqueue *rq)
{
	u32 was_held = *(volatile u32 *)&rq->is_held;
	bpf_spin_lock(&rq->lock);
	*(volatile u32 *)&rq->is_held = 1;
	COUNT(locks);
	if (was_held)
		COUNT(contended);
}

static inline void unlock(struct runqueue *rq)
{
	*(volatile u32 *)&rq->is_held = 0;
	bpf_spin_unlock(&rq->lock);
}

/* Tasks that can run, and the one that does. */
static inline u32 running(struct runqueue *rq)
{
	return rq->waiting + (rq->current_pid != 0);
}

static inline void link(struct runqueue *rq, u32 cpu, u32 pid, u32 array, bool first)
{
	struct slot *s = slot(pid);
	u32 a = array & 1, prio = s->prio & 63;
	struct queue *q = &rq->queues[a][prio];
	/* Two CPUs may want to, if its affinity changes while one takes it to its own queue. */
	if (__sync_val_compare_and_swap(&place(pid)->owner, 0, cpu + 1))
		return;
	place(pid)->prio = prio;
	s->array = a;
	queue_add(q, s, pid, first);
	rq->bits[a] |= 1ULL << prio;
	rq->waiting++;
}

static inline void unlink(struct runqueue *rq, u32 pid)
{
	struct slot *s = slot(pid);
	u32 a = s->array & 1, prio = place(pid)->prio & 63;
	struct queue *q = &rq->queues[a][prio];
	queue_remove(q, s);
	if (!q->first)
		rq->bits[a] &= ~(1ULL << prio);
	rq->waiting--;
	__sync_fetch_and_and(&place(pid)->owner, 0);
}

/* Takes a task out of the queue that it is in, if any. Another CPU may just move it to its own. */
static __noinline u32 leave(u32 pid)
{
	volatile u32 *owner = &place(pid)->owner;
	for (int tries = 0; tries < 4; tries++) {
		u32 last = *owner;
		struct runqueue *rq = last ? runqueue(last - 1) : NULL;
		if (!rq)
			return 0;
		lock(rq);
		if (*owner == last)
			unlink(rq, pid);
		unlock(rq);
	}
	return 0;
}

/* The array for the task that runs and wants on. A slice that is used up is made anew. */
static inline u32 array_after(struct runqueue *rq, struct slot *s, u64 now)
{
	if (s->yielded) {
		s->yielded = false;
		return !rq->active;
	}
	s->prio = priority(s->base, s->habit.sleep_avg);
	if (s->left)
		return rq->active;
	s->left = timeslice(s->base);
	s->first_slice = false;
	if (!rq->expired_at)
		rq->expired_at = now;
	if (is_interactive(s->base, s->prio) && !is_starving(now - rq->expired_at, rq->waiting + 1))
		return rq->active;
	return !rq->active;
}

/*
 * Takes a task for one CPU out of the queue of another: expired ones before active ones, those of better priority first, and
 * none that has run or woken after `until`. 0 for none.
 */
static __noinline u32 take(u32 from, u32 to, u64 until)
{
	struct runqueue *rq = runqueue(from);
	u32 pid = 0;
	if (!rq)
		return 0;
	lock(rq);
	u32 a = !rq->active;
	for (u32 arrays = 0; arrays < 2; arrays++, a = !a) {
		u64 left = rq->bits[a & 1];
		while (left) {
			BOUNDED_OR(out);
			pid = rq->queues[a & 1][lowest_bit(left) & 63].last;
			left &= left - 1;
			while (pid) {
				BOUNDED_OR(out);
				if ((place(pid)->allowed & bit(to)) && place(pid)->touched <= until)
					goto found;
				pid = slot(pid)->prev;
			}
		}
	}
out:
	pid = 0;
found:
	if (pid)
		unlink(rq, pid);
	unlock(rq);
	return pid;
}

/*
 * The CPU with the longest queue for one that is idle, or that has less by a fourth; CPUS for none. A busy CPU counts the
 * shorter of what it sees of others now and what it saw last, and the longer of its own.
 */
static inline u32 busiest(struct runqueue *rq, u32 cpu, bool is_idle, u32 *imbalance)
{
	u32 found = CPUS, most = 1, own = running(rq), last = rq->loads[cpu & (CPUS - 1)];
	if (!is_idle && own < last)
		own = last;
	for (u64 left = seen; left; left &= left - 1) {
		BOUNDED_OR(out);
		u32 other = lowest_bit(left) & (CPUS - 1);
		struct runqueue *theirs = runqueue(other);
		if (!theirs)
			break;
		u32 now = running(theirs), *before = &rq->loads[other];
		u32 load = is_idle || now < *before ? now : *before;
		*before = now;
		if (load > most && other != cpu) {
			most = load;
			found = other;
		}
	}
out:
	if (found == CPUS || own >= most)
		return CPUS;
	*imbalance = most - own;
	return is_idle || *imbalance * 4 >= most ? found : CPUS;
}

/* A busy CPU takes half of what another has more. Whether one of them is better than the task that runs. */
static __noinline u32 balance(u32 cpu, u64 now)
{
	struct runqueue *rq = runqueue(cpu);
	u32 imbalance = 0, moved = 0, preempts = 0;
	if (!rq)
		return 0;
	COUNT(balances);
	u32 from = busiest(rq, cpu, false, &imbalance);
	if (from == CPUS)
		return 0;
	do {
		BOUNDED_OR(out);
		u32 pid = take(from, cpu, now - CACHE_DECAY);
		if (!pid)
			break;
		lock(rq);
		link(rq, cpu, pid, rq->active, false);
		if (slot(pid)->prio < rq->current_prio)
			preempts = 1;
		unlock(rq);
	} while (++moved < imbalance / 2);
out:
	return preempts;
}

/* To where the task ran: 2.6.0 looks for no idle one. */
s32 OP(o1_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/* Whether a task that wakes takes the CPU, being better than the one that runs, which is the best of all. */
static inline bool preempts(struct runqueue *rq, struct slot *s, u32 pid)
{
	if (!rq->current_pid || s->prio >= rq->current_prio)
		return false;
	s->has_woken = false;
	rq->current_pid = pid;
	rq->current_prio = s->prio;
	return true;
}

static inline void enqueue_woken(struct runqueue *rq, u32 cpu, struct task_struct *p, u64 enq_flags)
{
	u32 pid = p->pid;
	u64 now = bpf_ktime_get_ns();
	struct slot *s = slot(pid);
	if (s->since)
		count_sleep(s, now - s->since);
	s->since = place(pid)->touched = now;
	s->has_woken = !s->uninterruptible;
	lock(rq);
	bool takes_cpu = preempts(rq, s, pid);
	if (!takes_cpu)
		link(rq, cpu, pid, rq->active, false);
	unlock(rq);
	if (takes_cpu) {
		COUNT(picks);
		COUNT(preemptions);
		insert(p, SCX_DSQ_LOCAL, turn_of(s), enq_flags | SCX_ENQ_PREEMPT);
	}
}

/*
 * A child stands right before its parent, at its priority, and runs first: 2.6.0's do_fork ends with set_need_resched. After
 * vfork the parent waits for its child, and so goes on to where it does. Where the parent does not run it is in no array.
 */
static inline void enqueue_new(struct runqueue *rq, u32 cpu, struct task_struct *p, u64 enq_flags)
{
	u32 pid = p->pid, parent_pid = bpf_get_current_task_btf()->pid;
	struct slot *s = slot(pid);
	bool waits = p->vfork_done;
	s->is_new = false;
	lock(rq);
	bool has_parent = rq->current_pid && rq->current_pid == parent_pid;
	if (has_parent)
		s->prio = rq->current_prio;
	if (has_parent && !waits)
		rq->current_pid = pid;
	else
		link(rq, cpu, pid, rq->active, has_parent);
	unlock(rq);
	if (has_parent && !waits) {
		COUNT(picks);
		insert(p, SCX_DSQ_LOCAL, turn_of(s), enq_flags | SCX_ENQ_PREEMPT);
	}
}

/* Of a task that is neither new nor has just woken: its array, and whether it goes before those of its priority. */
static inline void put_back(struct runqueue *rq, u32 cpu, u32 pid, u64 now)
{
	struct slot *s = slot(pid);
	if (s->decided) {
		s->decided = false;
		link(rq, cpu, pid, s->array, false);
	} else if (s->left && !s->yielded) {
		/* Another has taken the CPU from it: it keeps its place. */
		link(rq, cpu, pid, rq->active, true);
	} else {
		link(rq, cpu, pid, array_after(rq, s, now), false);
	}
}

void OP(o1_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 pid = p->pid, cpu = p->thread_info.cpu;
	u64 now = bpf_ktime_get_ns();
	struct runqueue *rq = runqueue(cpu);
	if (!has_place(pid) || !rq) {
		run_unscheduled(p, enq_flags);
		return;
	}
	/* A queue that it was taken out of for a CPU that it may no longer run on. */
	leave(pid);
	place(pid)->allowed = allowed_cpus(p);
	if (enq_flags & SCX_ENQ_WAKEUP) {
		enqueue_woken(rq, cpu, p, enq_flags);
		return;
	}
	if (slot(pid)->is_new) {
		enqueue_new(rq, cpu, p, enq_flags);
		return;
	}
	if (idle & bit(cpu)) {
		/* Its affinity has changed while it waited elsewhere, and nothing else tells this CPU of it. */
		insert(p, SCX_DSQ_LOCAL, turn_of(slot(pid)), enq_flags);
		return;
	}
	lock(rq);
	put_back(rq, cpu, pid, now);
	unlock(rq);
}

void OP(o1_dequeue, struct task_struct *p, u64 deq_flags)
{
	if (has_place(p->pid))
		leave(p->pid);
}

/*
 * Gives a CPU to a task that has waited, which counts in part as sleep. For one whose affinity has changed meanwhile the
 * kernel finds a CPU.
 */
static inline void run(u32 pid, u32 cpu)
{
	struct slot *s = slot(pid);
	if (s->has_woken) {
		count_sleep(s, (bpf_ktime_get_ns() - s->since) * WAITED_128THS / 128);
		s->has_woken = false;
	}
	struct task_struct *p = bpf_task_from_pid(pid);
	if (!p)
		return;
	if (allowed_cpus(p) & bit(cpu))
		insert(p, SCX_DSQ_LOCAL_ON | cpu, turn_of(s), 0);
	else
		run_unscheduled(p, 0);
	bpf_task_release(p);
}

/* An idle CPU takes one task from the busiest, at once. */
static inline void balance_idle(struct runqueue *rq, u32 cpu)
{
	u32 imbalance, from = busiest(rq, cpu, true, &imbalance);
	COUNT(balances);
	u32 pid = from == CPUS ? 0 : take(from, cpu, ~0ULL);
	if (pid)
		run(pid, cpu);
	else
		__sync_fetch_and_or(&idle, bit(cpu));
}

/* What an idle CPU would do at its tick, had it one: a task of this CPU goes there. */
static inline void balance_for_idle(u32 cpu)
{
	u64 others = idle & ~bit(cpu), one = others & -others;
	if (!one || !(__sync_fetch_and_and(&idle, ~one) & one))
		return;
	u32 to = lowest_bit(one) & (CPUS - 1);
	COUNT(balances);
	u32 pid = take(cpu, to, ~0ULL);
	if (pid)
		run(pid, to);
	else
		__sync_fetch_and_or(&idle, one);
}

/* Who runs next: one that waits, or 0 for who runs to go on, or for nobody. */
static inline u32 choose(struct runqueue *rq, struct slot *mine)
{
	for (int round = 0; round < 2; round++) {
		u32 a = rq->active & 1;
		u32 prio = rq->bits[a] ? lowest_bit(rq->bits[a]) & 63 : NONE;
		if (mine && mine->array == a && mine->prio < prio)
			return 0;
		if (prio < NONE) {
			u32 pid = rq->queues[a][prio & 63].first;
			COUNT(scanned);
			unlink(rq, pid);
			return pid;
		}
		rq->expired_at = 0;
		if (!mine && !rq->bits[a ^ 1])
			return 0;
		rq->active = a ^ 1;
		COUNT(exchanges);
	}
	return 0;
}

void OP(o1_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 now = bpf_ktime_get_ns(), run_time = 0;
	struct runqueue *rq = runqueue(cpu);
	struct slot *mine = NULL;
	u32 my_pid = 0;
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	if (!rq)
		return;
	if (!(seen & bit(cpu)))
		__sync_fetch_and_or(&seen, bit(cpu));
	COUNT(picks);
	if (goes_on && has_place(prev->pid)) {
		my_pid = prev->pid;
		mine = slot(my_pid);
		run_time = prev->se.sum_exec_runtime;
		charge_slice(mine, run_time);
		if (place(my_pid)->is_interrupted) {
			place(my_pid)->is_interrupted = false;
			balance_for_idle(cpu);
			if (mine->left && !mine->yielded) {
				scx_bpf_task_set_slice(prev, turn_of(mine));
				return;
			}
		}
	}
	lock(rq);
	if (mine) {
		mine->array = array_after(rq, mine, now) & 1;
		mine->decided = true;
	}
	u32 pid = choose(rq, mine);
	if (!pid) {
		if (mine)
			mine->decided = false;
		rq->current_pid = my_pid;
		rq->current_prio = mine ? mine->prio : NONE;
	}
	unlock(rq);
	if (pid) {
		run(pid, cpu);
	} else if (mine) {
		charge_habit(mine, run_time);
		scx_bpf_task_set_slice(prev, turn_of(mine));
	} else if (!goes_on) {
		balance_idle(rq, cpu);
	}
}

void OP(o1_tick, struct task_struct *p)
{
	u32 pid = p->pid, cpu = p->thread_info.cpu;
	u64 now = bpf_ktime_get_ns();
	struct runqueue *rq = runqueue(cpu);
	if (!has_place(pid) || !rq)
		return;
	if (now - rq->balanced_at >= BUSY_REBALANCE) {
		rq->balanced_at = now;
		if (balance(cpu, now))
			scx_bpf_task_set_slice(p, 0);
	}
	if (rq->waiting && (idle & ~bit(cpu))) {
		place(pid)->is_interrupted = true;
		scx_bpf_task_set_slice(p, 0);
	}
}

void OP(o1_running, struct task_struct *p)
{
	u32 pid = p->pid, cpu = p->thread_info.cpu;
	struct slot *s = slot(pid);
	struct runqueue *rq = runqueue(cpu);
	__sync_fetch_and_and(&idle, ~bit(cpu));
	if (!has_place(pid) || !rq)
		return;
	/* It may have been enqueued anew while a CPU took it out of a queue. */
	leave(pid);
	s->charged = s->started = p->se.sum_exec_runtime;
	s->base = p->static_prio - 100;
	s->is_user = p->mm != NULL;
	s->uninterruptible = false;
	place(pid)->is_interrupted = false;
	if (place(pid)->cpu != cpu) {
		place(pid)->cpu = cpu;
		COUNT(migrations);
	}
	rq->current_pid = pid;
	rq->current_prio = s->prio;
}

void OP(o1_stopping, struct task_struct *p, bool is_runnable)
{
	u32 pid = p->pid;
	struct slot *s = slot(pid);
	struct runqueue *rq = runqueue(p->thread_info.cpu);
	if (!has_place(pid) || !rq)
		return;
	if (rq->current_pid == pid) {
		rq->current_pid = 0;
		rq->current_prio = NONE;
	}
	charge_slice(s, p->se.sum_exec_runtime);
	charge_habit(s, p->se.sum_exec_runtime);
	place(pid)->touched = bpf_ktime_get_ns();
	if (!is_runnable) {
		s->since = place(pid)->touched;
		s->uninterruptible = is_uninterruptible(p->__state);
	}
}

s32 OP(o1_init)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	online = bpf_cpumask_weight(mask);
	scx_bpf_put_cpumask(mask);
	return 0;
}

s32 OP(o1_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	u32 pid = p->pid;
	if (has_place(pid)) {
		leave(pid);
		place(pid)->allowed = allowed_cpus(p);
		place(pid)->cpu = p->thread_info.cpu;
		place(pid)->touched = bpf_ktime_get_ns();
		place(pid)->is_interrupted = false;
	}
	return init_slot(p, args);
}

void OP(o1_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 pid = p->pid, parent_pid = p->real_parent->pid;
	if (args->cancelled || !has_place(pid) || !has_place(parent_pid))
		return;
	leave(pid);
	return_rest(slot(parent_pid), slot(pid));
}

SEC(".struct_ops.link")
struct sched_ext_ops o1_ops = {
	.select_cpu = (void *)o1_select_cpu,
	.enqueue = (void *)o1_enqueue,
	.dequeue = (void *)o1_dequeue,
	.dispatch = (void *)o1_dispatch,
	.tick = (void *)o1_tick,
	.yield = (void *)o1_yield,
	.running = (void *)o1_running,
	.stopping = (void *)o1_stopping,
	.init_task = (void *)o1_init_task,
	.exit_task = (void *)o1_exit_task,
	.init = (void *)o1_init,
	.exit = (void *)o1_exit,
	.name = "o1",
};
