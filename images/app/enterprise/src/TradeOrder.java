package trade;

import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;

/** A trade that was made; a sale has a negative quantity. */
@Entity
@Table(name = "orders")
public class TradeOrder {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    private int number;

    private int account;
    private int symbol;
    private int quantity;
    private long price;

    protected TradeOrder() {}

    TradeOrder(int account, int symbol, int quantity, long price) {
        this.account = account;
        this.symbol = symbol;
        this.quantity = quantity;
        this.price = price;
    }

    public int number() {
        return number;
    }
}
