package trade;

import java.io.Serializable;

/** Whose shares of what. */
public class HoldingKey implements Serializable {
    private static final long serialVersionUID = 1L;

    int account;
    int symbol;

    public HoldingKey() {}

    HoldingKey(int account, int symbol) {
        this.account = account;
        this.symbol = symbol;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof HoldingKey key && account == key.account && symbol == key.symbol;
    }

    @Override
    public int hashCode() {
        return 31 * account + symbol;
    }
}
