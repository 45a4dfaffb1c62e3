package trade;

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;

/** What a share costs. */
@Entity
@Table(name = "quotes")
public class Quote {
    @Id
    private int symbol;

    private String company;
    private long price;
    private long opened;
    private long volume;

    public int symbol() {
        return symbol;
    }

    public String company() {
        return company;
    }

    public long price() {
        return price;
    }

    public long opened() {
        return opened;
    }

    public long volume() {
        return volume;
    }

    /** Who buys drives the price up, who sells drives it down, and never below a dollar. */
    public void trade(int count) {
        long step = 1 + price / 1000;
        price = count > 0 ? price + step : Math.max(100, price - step);
        volume += Math.abs(count);
    }
}
