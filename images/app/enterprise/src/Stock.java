package trade;

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;

/** The market's shares of a symbol, and its cash for them. */
@Entity
@Table(name = "market")
public class Stock {
    @Id
    private int symbol;

    private long shares;
    private long cash;

    /** Gives shares for cash; of a negative count the reverse. False if it has too few of either. */
    public boolean sell(int count, long amount) {
        if (shares < count || cash + amount < 0) {
            return false;
        }
        shares -= count;
        cash += amount;
        return true;
    }
}
