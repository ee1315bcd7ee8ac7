// SPDX-License-Identifier: GPL-2.0-only

import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RecursiveTask;
import java.util.concurrent.SynchronousQueue;

/**
 * Recursion on a fork-join pool, with blocking hand-offs: a round forks down to leaves that compute,
 * each branch above some leaves hands its sum to a collector and waits until that has taken it, and
 * the round ends once all have joined and the collector knows the total.
 *
 * <pre>java -jar ForkJoin.jar PARALLELISM SECONDS</pre>
 *
 * Rounds for a third of the time do not count: classes are loaded and methods compiled by then.
 * Prints "done N", leaves, and "rate N": of them per second.
 */
public final class ForkJoin {
	static final int DEPTH = 6; // 64 leaves
	static final int HANDS_OFF_AT = 3; // branches so deep hand over: 8 in a round
	static final int LEAF_STEPS = 5_000;
	static final long END = Long.MIN_VALUE;

	static final SynchronousQueue<Long> handed = new SynchronousQueue<>();
	static final SynchronousQueue<Long> totals = new SynchronousQueue<>();
	static volatile long sink;

	static long compute(long x) {
		for (int step = 0; step < LEAF_STEPS; step++)
			x = x * 6364136223846793005L + 1442695040888963407L;
		return x;
	}

	static final class Branch extends RecursiveTask<Long> {
		private static final long serialVersionUID = 1;
		private final int depth;

		Branch(int depth) {
			this.depth = depth;
		}

		@Override
		protected Long compute() {
			if (depth == DEPTH)
				return ForkJoin.compute(depth);
			Branch left = new Branch(depth + 1), right = new Branch(depth + 1);
			left.fork();
			long sum = right.compute() + left.join();
			if (depth == HANDS_OFF_AT)
				put(sum);
			return sum;
		}

		/** The pool may start another thread while this one sleeps. */
		private static void put(long sum) {
			try {
				ForkJoinPool.managedBlock(new HandOff(sum));
			} catch (InterruptedException why) {
				throw new IllegalStateException(why);
			}
		}
	}

	static final class HandOff implements ForkJoinPool.ManagedBlocker {
		private final Long sum;
		private boolean done;

		HandOff(Long sum) {
			this.sum = sum;
		}

		@Override
		public boolean block() throws InterruptedException {
			handed.put(sum);
			return done = true;
		}

		@Override
		public boolean isReleasable() {
			return done || (done = handed.offer(sum));
		}
	}

	static void collect() {
		try {
			for (;;) {
				long total = 0;
				for (int i = 0; i < 1 << HANDS_OFF_AT; i++) {
					long sum = handed.take();
					if (sum == END)
						return;
					total += sum;
				}
				totals.put(total);
			}
		} catch (InterruptedException why) {
			throw new IllegalStateException(why);
		}
	}

	/** Rounds for so long; returns how many there were. */
	static long rounds(ForkJoinPool pool, double seconds) throws InterruptedException {
		long until = System.nanoTime() + (long) (seconds * 1e9), rounds = 0;
		for (; System.nanoTime() < until; rounds++) {
			sink = pool.submit(new Branch(0)).join() - totals.take();
		}
		return rounds;
	}

	public static void main(String[] arguments) throws InterruptedException {
		if (arguments.length != 2) {
			System.err.println("usage: ForkJoin PARALLELISM SECONDS");
			System.exit(64);
		}
		ForkJoinPool pool = new ForkJoinPool(Integer.parseInt(arguments[0]));
		double seconds = Double.parseDouble(arguments[1]);
		Thread collector = new Thread(ForkJoin::collect);
		collector.start();
		rounds(pool, seconds / 3);
		long begin = System.nanoTime();
		long done = rounds(pool, seconds) << DEPTH;
		double took = (System.nanoTime() - begin) / 1e9;
		handed.put(END);
		collector.join();
		pool.shutdown();
		System.out.printf("done %d%nrate %.6g%n", done, done / took);
	}
}
