package trade;

/** What a visitor asked for cannot be: no right, no money, no shares. Nothing was changed. */
public final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1L;

    final int status;

    Refused(int status, String why) {
        // Without a stack trace: it is an answer, not a fault.
        super(why, null, false, false);
        this.status = status;
    }

    /** A number that a visitor wrote. */
    static int number(String text) {
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException why) {
            throw new Refused(400, "not a number");
        }
    }
}
