package trade;

/** What a visitor asked for cannot be: no right, no money, no shares. Nothing was changed. */
final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1L;

    final int status;

    Refused(int status, String why) {
        // Without a stack trace: it is an answer, not a fault.
        super(why, null, false, false);
        this.status = status;
    }
}
