package trade;

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.IdClass;
import jakarta.persistence.Table;

/** An account's shares of a symbol. */
@Entity
@Table(name = "holdings")
@IdClass(HoldingKey.class)
public class Holding {
    @Id
    private int account;

    @Id
    private int symbol;

    private long quantity;

    protected Holding() {}

    Holding(int account, int symbol, long quantity) {
        this.account = account;
        this.symbol = symbol;
        this.quantity = quantity;
    }

    public long quantity() {
        return quantity;
    }

    public void add(int count) {
        quantity += count;
    }
}
