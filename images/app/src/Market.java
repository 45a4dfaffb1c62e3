package trade;

import java.sql.SQLException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** The hours of the market, and the count of what became of transactions. */
public final class Market {
    private static final int ATTEMPTS = 5;

    /** Trades whose commit the database has confirmed. */
    private final AtomicLong confirmed = new AtomicLong();
    /** Trades whose commit failed, so that nobody here knows what became of them. */
    private final AtomicLong uncertain = new AtomicLong();
    /** Transactions that were done again. */
    private final AtomicLong repeated = new AtomicLong();
    /** Trades share it; who closes the market has it alone. */
    private final ReadWriteLock hours = new ReentrantReadWriteLock();
    private boolean closed;

    /** One attempt at a transaction. */
    public static final class Attempt {
        private boolean committing;

        /** From here on, a failure leaves open whether the database has committed. */
        public void commits() {
            committing = true;
        }
    }

    interface Transaction<T> {
        T run(Attempt attempt) throws SQLException;
    }

    /** Runs a trade, if the market is open. */
    Page trade(Transaction<Page> work) throws SQLException {
        hours.readLock().lock();
        try {
            if (closed) {
                throw new Refused(409, "the market is closed");
            }
            Page page = run(work);
            confirmed.incrementAndGet();
            return page;
        } finally {
            hours.readLock().unlock();
        }
    }

    /** Runs a transaction, and again if the database has rolled it back. */
    <T> T run(Transaction<T> work) throws SQLException {
        for (int number = 1; ; number++) {
            Attempt attempt = new Attempt();
            try {
                return work.run(attempt);
            } catch (Refused why) {
                throw why;
            } catch (SQLException | RuntimeException why) {
                if (attempt.committing) {
                    uncertain.incrementAndGet();
                }
                if (!isRolledBack(why) || number == ATTEMPTS) {
                    throw why;
                }
                repeated.incrementAndGet();
            }
        }
    }

    /** Class 40: the database has rolled the transaction back, as after a deadlock. */
    private static boolean isRolledBack(Throwable why) {
        for (Throwable cause = why; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException failure && failure.getSQLState() != null) {
                return failure.getSQLState().startsWith("40");
            }
        }
        return false;
    }

    /** Waits for the trades under way, lets no other begin, and says how many there were. */
    String close() {
        hours.writeLock().lock();
        try {
            closed = true;
            return confirmed + " confirmed\n" + uncertain + " uncertain\n" + repeated + " repeated\n";
        } finally {
            hours.writeLock().unlock();
        }
    }
}
