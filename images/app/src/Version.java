package trade;

/** Prints a server's version, and that of the Java that runs it. */
public final class Version {
    private Version() {}

    public static void main(String[] server) {
        System.out.println(server[0] + ", Java " + Runtime.version());
    }
}
