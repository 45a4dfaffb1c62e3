package trade;

import java.sql.SQLException;

/** Calls the session bean, whose container begins and ends a transaction with each call. */
final class EnterpriseBroker implements Brokerage {
    private final Trading trading;
    private final Market market = new Market();

    EnterpriseBroker(Trading trading) {
        this.trading = trading;
    }

    @Override
    public void login(int account, String password) throws SQLException {
        market.run(attempt -> {
            trading.login(account, password);
            return null;
        });
    }

    @Override
    public Page home(int account) throws SQLException {
        return market.run(attempt -> trading.home(account));
    }

    @Override
    public Page quote(String[] symbols) throws SQLException {
        return market.run(attempt -> trading.quote(symbols));
    }

    @Override
    public Page portfolio(int account) throws SQLException {
        return market.run(attempt -> trading.portfolio(account));
    }

    @Override
    public Page trade(int account, int symbol, int count) throws SQLException {
        return market.trade(attempt -> trading.trade(attempt, account, symbol, count));
    }

    @Override
    public String close() {
        return market.close();
    }
}
