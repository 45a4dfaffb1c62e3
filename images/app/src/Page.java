package trade;

/** A page in the making: a title, lines, tables. All that comes into it is numbers and words of our own. */
public final class Page {
    private final StringBuilder html = new StringBuilder(2048);

    Page(String title) {
        html.append("<!DOCTYPE html>\n<html><head><title>Trade: ").append(title).append("</title></head><body>\n");
    }

    Page line(String text) {
        html.append("<p>").append(text).append("</p>\n");
        return this;
    }

    Page row(Object... cells) {
        html.append("<div>");
        for (Object cell : cells) {
            html.append("<span>").append(cell).append("</span>");
        }
        html.append("</div>\n");
        return this;
    }

    /** An amount of cents as people write it. */
    static String money(long cents) {
        return cents / 100 + "." + cents / 10 % 10 + cents % 10;
    }

    @Override
    public String toString() {
        return html + "<hr><a href=\"/home\">Home</a> <a href=\"/portfolio\">Portfolio</a>\n</body></html>\n";
    }
}
