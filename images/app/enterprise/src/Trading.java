package trade;

import jakarta.ejb.Stateless;
import jakarta.persistence.EntityManager;
import jakarta.persistence.LockModeType;
import jakarta.persistence.PersistenceContext;
import java.util.List;

/**
 * What {@link Broker} does, with entities and container-managed transactions. A trade locks its rows in the same
 * order: quote, market, account, holding.
 */
@Stateless
public class Trading {
    /** With {@code TRADE_LOCKS=none}, trades read without locks, so that concurrent ones lose updates. */
    private static final LockModeType LOCK =
            "none".equals(System.getenv("TRADE_LOCKS")) ? LockModeType.NONE : LockModeType.PESSIMISTIC_WRITE;

    @PersistenceContext(unitName = "trade")
    private EntityManager entities;

    public void login(int account, String password) {
        Account visitor = entities.find(Account.class, account, LOCK);
        if (visitor == null || !visitor.hasPassword(password)) {
            throw new Refused(403, "no such account or password");
        }
        visitor.visit();
    }

    public Page home(int account) {
        Page page = new Page("home of " + account);
        Account visitor = entities.find(Account.class, account);
        page.row("Cash", Page.money(visitor.cash())).row("Visits", visitor.visits());
        String held = "select count(h), sum(h.quantity) from Holding h where h.account = :account and h.quantity > 0";
        Object[] sums = entities.createQuery(held, Object[].class).setParameter("account", account).getSingleResult();
        page.row("Holdings", sums[0]).row("Shares", sums[1]);
        page.line("The market's busiest:");
        String busiest = "select q from Quote q order by q.volume desc, q.symbol";
        List<Quote> quotes = entities.createQuery(busiest, Quote.class).setMaxResults(5).getResultList();
        for (Quote quote : quotes) {
            page.row(quote.symbol(), Page.money(quote.price()), quote.volume());
        }
        return page;
    }

    public Page quote(String[] symbols) {
        Page page = new Page("quotes of " + String.join(" ", symbols));
        for (String symbol : symbols) {
            Quote quote = entities.find(Quote.class, Refused.number(symbol));
            if (quote == null) {
                throw new Refused(404, "no such symbol");
            }
            page.row(symbol, quote.company(), Page.money(quote.price()), Page.money(quote.opened()), quote.volume());
        }
        return page;
    }

    public Page portfolio(int account) {
        Page page = new Page("portfolio of " + account);
        String held = "select h.symbol, q.company, h.quantity, q.price from Holding h, Quote q "
                + "where q.symbol = h.symbol and h.account = :account and h.quantity > 0 order by h.symbol";
        for (Object[] row : entities.createQuery(held, Object[].class).setParameter("account", account).getResultList()) {
            long quantity = (Long) row[2];
            long price = (Long) row[3];
            page.row(row[0], row[1], quantity, Page.money(price), Page.money(quantity * price));
        }
        return page;
    }

    /** Moves shares from the market to an account and cash the other way; of a negative count the reverse. */
    public Page trade(Market.Attempt attempt, int account, int symbol, int count) {
        Quote quote = entities.find(Quote.class, symbol, LOCK);
        if (quote == null) {
            throw new Refused(404, "no such symbol");
        }
        long price = quote.price();
        long cash = price * count;
        Stock stock = entities.find(Stock.class, symbol, LOCK);
        if (!stock.sell(count, cash)) {
            throw new Refused(409, "the market cannot do this");
        }
        Account visitor = entities.find(Account.class, account, LOCK);
        if (visitor.cash() < cash) {
            throw new Refused(409, "not enough cash");
        }
        visitor.pay(cash);
        hold(account, symbol, count);
        quote.trade(count);
        TradeOrder order = new TradeOrder(account, symbol, count, price);
        entities.persist(order);
        // Statements fail here; only the commit follows.
        entities.flush();
        attempt.commits();
        return new Page(account + (count > 0 ? " bought " : " sold ") + Math.abs(count) + " of " + symbol)
                .row("Order", order.number()).row("Price", Page.money(price)).row("Total", Page.money(Math.abs(cash)));
    }

    /** Adds to an account's shares. The lock on the account's row keeps two trades from adding the same holding. */
    private void hold(int account, int symbol, int count) {
        Holding holding = entities.find(Holding.class, new HoldingKey(account, symbol), LOCK);
        if (count < 0 && (holding == null || holding.quantity() < -count)) {
            throw new Refused(409, "not enough shares");
        }
        if (holding == null) {
            entities.persist(new Holding(account, symbol, count));
        } else {
            holding.add(count);
        }
    }
}
