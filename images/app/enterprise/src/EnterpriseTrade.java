package trade;

import javax.naming.InitialContext;
import javax.naming.NamingException;

/** The same pages, in front of a session bean. */
public final class EnterpriseTrade extends Trade {
    private static final long serialVersionUID = 1L;

    @Override
    Brokerage open(InitialContext names) throws NamingException {
        return new EnterpriseBroker((Trading) names.lookup("java:module/Trading"));
    }
}
