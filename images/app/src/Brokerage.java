package trade;

import java.sql.SQLException;

/** What the pages need of a broker. Each call is one transaction. */
interface Brokerage {
    void login(int account, String password) throws SQLException;

    Page home(int account) throws SQLException;

    Page quote(String[] symbols) throws SQLException;

    Page portfolio(int account) throws SQLException;

    /** Buys shares from the market; a negative count sells them to it. */
    Page trade(int account, int symbol, int count) throws SQLException;

    /** Waits for the trades under way, lets no other begin, and says how many there were. */
    String close();
}
