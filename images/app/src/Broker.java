package trade;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;

/**
 * What the broker does with the database; each public method is one transaction. Money is in cents. A trade moves
 * cash between an account and the market, and shares between the market and the account's holdings.
 *
 * <p>Every trade locks its rows in one order - quote, market, account, holding - so two of them cannot wait for each
 * other. Should the database see a deadlock all the same, the transaction is done again.
 */
final class Broker implements Brokerage {
    /** The one statement that databases spell in their own way. */
    private static final String ADD_HOLDING = "insert into holdings values (?, ?, ?) "
            + ("postgresql".equals(System.getProperty("trade.database"))
                    ? "on conflict (account, symbol) do update set quantity = holdings.quantity + ?"
                    : "on duplicate key update quantity = quantity + ?");

    private final DataSource pool;
    private final Market market = new Market();

    Broker(DataSource pool) {
        this.pool = pool;
    }

    @Override
    public void login(int account, String password) throws SQLException {
        transact(connection -> {
            String sql = "update accounts set visits = visits + 1 where id = ? and password = ?";
            if (change(connection, sql, account, password) != 1) {
                throw new Refused(403, "no such account or password");
            }
            return null;
        });
    }

    @Override
    public Page home(int account) throws SQLException {
        return transact(connection -> {
            Page page = new Page("home of " + account);
            ask(connection, "select cash, visits from accounts where id = ?", row ->
                    page.row("Cash", Page.money(row.getLong(1))).row("Visits", row.getLong(2)), account);
            ask(connection, "select count(*), sum(quantity) from holdings where account = ? and quantity > 0", row ->
                    page.row("Holdings", row.getLong(1)).row("Shares", row.getLong(2)), account);
            page.line("The market's busiest:");
            ask(connection, "select symbol, price, volume from quotes order by volume desc, symbol limit 5", row ->
                    page.row(row.getInt(1), Page.money(row.getLong(2)), row.getLong(3)));
            return page;
        });
    }

    @Override
    public Page quote(String[] symbols) throws SQLException {
        return transact(connection -> {
            Page page = new Page("quotes of " + String.join(" ", symbols));
            for (String symbol : symbols) {
                String sql = "select company, price, opened, volume from quotes where symbol = ?";
                int rows = ask(connection, sql, row -> page.row(symbol, row.getString(1), Page.money(row.getLong(2)),
                        Page.money(row.getLong(3)), row.getLong(4)), Refused.number(symbol));
                if (rows == 0) {
                    throw new Refused(404, "no such symbol");
                }
            }
            return page;
        });
    }

    @Override
    public Page portfolio(int account) throws SQLException {
        return transact(connection -> {
            Page page = new Page("portfolio of " + account);
            String sql = "select h.symbol, q.company, h.quantity, q.price from holdings h "
                    + "join quotes q on q.symbol = h.symbol where h.account = ? and h.quantity > 0 order by h.symbol";
            ask(connection, sql, row -> page.row(row.getInt(1), row.getString(2), row.getLong(3),
                    Page.money(row.getLong(4)), Page.money(row.getLong(3) * row.getLong(4))), account);
            return page;
        });
    }

    @Override
    public Page trade(int account, int symbol, int count) throws SQLException {
        return market.trade(attempt -> commit(attempt, connection -> move(connection, account, symbol, count)));
    }

    /** Moves shares from the market to an account and cash the other way; of a negative count the reverse. */
    private static Page move(Connection connection, int account, int symbol, int count) throws SQLException {
        long[] seen = new long[1];
        String sql = "select price from quotes where symbol = ? for update";
        if (ask(connection, sql, row -> seen[0] = row.getLong(1), symbol) == 0) {
            throw new Refused(404, "no such symbol");
        }
        long price = seen[0];
        long cash = price * count;
        sql = "update market set shares = shares - ?, cash = cash + ? where symbol = ? and shares >= ? and cash + ? >= 0";
        if (change(connection, sql, count, cash, symbol, count, cash) != 1) {
            throw new Refused(409, "the market cannot do this");
        }
        sql = "update accounts set cash = cash - ? where id = ? and cash >= ?";
        if (change(connection, sql, cash, account, cash) != 1) {
            throw new Refused(409, "not enough cash");
        }
        if (count > 0) {
            change(connection, ADD_HOLDING, account, symbol, count, count);
        } else {
            sql = "update holdings set quantity = quantity + ? where account = ? and symbol = ? and quantity >= ?";
            if (change(connection, sql, count, account, symbol, -count) != 1) {
                throw new Refused(409, "not enough shares");
            }
        }
        // Who buys drives the price up, who sells drives it down, and never below a dollar.
        long step = 1 + price / 1000;
        long next = count > 0 ? price + step : Math.max(100, price - step);
        sql = "update quotes set price = ?, volume = volume + ? where symbol = ?";
        change(connection, sql, next, Math.abs(count), symbol);
        long order = order(connection, account, symbol, count, price);
        return new Page(account + (count > 0 ? " bought " : " sold ") + Math.abs(count) + " of " + symbol)
                .row("Order", order).row("Price", Page.money(price)).row("Total", Page.money(Math.abs(cash)));
    }

    /** Notes a trade; its number. */
    private static long order(Connection connection, int account, int symbol, int count, long price)
            throws SQLException {
        String sql = "insert into orders (account, symbol, quantity, price) values (?, ?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS)) {
            fill(statement, account, symbol, count, price);
            statement.executeUpdate();
            try (ResultSet keys = statement.getGeneratedKeys()) {
                keys.next();
                return keys.getLong(1);
            }
        }
    }

    @Override
    public String close() {
        return market.close();
    }

    private interface Work<T> {
        T on(Connection connection) throws SQLException;
    }

    private interface Reader {
        void take(ResultSet row) throws SQLException;
    }

    private <T> T transact(Work<T> work) throws SQLException {
        return market.run(attempt -> commit(attempt, work));
    }

    private <T> T commit(Market.Attempt attempt, Work<T> work) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            try {
                T result = work.on(connection);
                attempt.commits();
                connection.commit();
                return result;
            } catch (SQLException | RuntimeException why) {
                connection.rollback();
                throw why;
            }
        }
    }

    /** Runs a statement; the rows that it touched. */
    private static int change(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            fill(statement, values);
            return statement.executeUpdate();
        }
    }

    /** Asks for rows; how many there were. */
    private static int ask(Connection connection, String sql, Reader reader, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            fill(statement, values);
            try (ResultSet rows = statement.executeQuery()) {
                int count = 0;
                for (; rows.next(); count++) {
                    reader.take(rows);
                }
                return count;
            }
        }
    }

    private static void fill(PreparedStatement statement, Object... values) throws SQLException {
        for (int at = 0; at < values.length; at++) {
            statement.setObject(at + 1, values[at]);
        }
    }
}
