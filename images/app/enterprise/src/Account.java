package trade;

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;

/** A visitor's account. Money is in cents. */
@Entity
@Table(name = "accounts")
public class Account {
    // Providers see changes of fields only within the entity.
    @Id
    private int id;

    private String password;
    private long cash;
    private int visits;

    public boolean hasPassword(String typed) {
        return password.equals(typed);
    }

    public void visit() {
        visits++;
    }

    public int visits() {
        return visits;
    }

    public long cash() {
        return cash;
    }

    public void pay(long amount) {
        cash -= amount;
    }
}
