package trade;

import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpSession;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import javax.sql.DataSource;

/**
 * The pages of an on-line stock broker. A visitor logs in and is known by the session from then on; what is
 * bought and sold goes through {@link Broker}. Each page's title says what it answers, so that clients can
 * tell the right page from another visitor's.
 */
public class Trade extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private static final String ACCOUNT = "account";

    /** Most shares of one trade. */
    private static final int MOST_SHARES = 1000;

    private transient Brokerage broker;

    @Override
    public void init() throws ServletException {
        try {
            broker = open(new InitialContext());
        } catch (NamingException why) {
            throw new ServletException("no broker", why);
        }
    }

    /** The broker that does the work, here with the pool of database connections. */
    Brokerage open(InitialContext names) throws NamingException {
        return new Broker((DataSource) names.lookup("java:comp/env/jdbc/trade"));
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        serve(request, response);
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        serve(request, response);
    }

    private void serve(HttpServletRequest request, HttpServletResponse response) throws IOException {
        try {
            String asked = request.getMethod() + " " + request.getServletPath();
            switch (asked) {
                // Without the database: the server is up before there are tables.
                case "GET /up" -> send(response, 200, "text/plain", "up\n");
                case "GET /collect" -> {
                    System.gc();
                    send(response, 200, "text/plain", "collected\n");
                }
                case "GET /bell" -> send(response, 200, "text/plain", broker.close());
                case "POST /login" -> page(response, 200, login(request));
                default -> page(response, 200, known(asked, request));
            }
        } catch (Refused why) {
            page(response, why.status, new Page(why.getMessage()));
        } catch (SQLException | RuntimeException why) {
            log(request.getServletPath() + ": " + why);
            page(response, 500, new Page("the database failed"));
        }
    }

    private Page login(HttpServletRequest request) throws SQLException {
        int account = number(request, "user");
        broker.login(account, text(request, "password"));
        request.getSession(true).setAttribute(ACCOUNT, account);
        return new Page("welcome " + account).line("You are logged in.");
    }

    /** Pages that only a visitor who has logged in gets. */
    private Page known(String asked, HttpServletRequest request) throws SQLException {
        HttpSession session = request.getSession(false);
        if (session == null || !(session.getAttribute(ACCOUNT) instanceof Integer account)) {
            throw new Refused(403, "not logged in");
        }
        return switch (asked) {
            case "GET /home" -> broker.home(account);
            case "GET /quote" -> broker.quote(text(request, "symbols").split(","));
            case "GET /portfolio" -> broker.portfolio(account);
            case "POST /buy" -> broker.trade(account, number(request, "symbol"), shares(request));
            case "POST /sell" -> broker.trade(account, number(request, "symbol"), -shares(request));
            case "POST /logout" -> {
                session.invalidate();
                yield new Page("goodbye " + account).line("You are logged out.");
            }
            default -> throw new Refused(404, "no such page");
        };
    }

    private static String text(HttpServletRequest request, String name) {
        String value = request.getParameter(name);
        if (value == null) {
            throw new Refused(400, "missing field");
        }
        return value;
    }

    private static int number(HttpServletRequest request, String name) {
        return Refused.number(text(request, name));
    }

    private static int shares(HttpServletRequest request) {
        int count = number(request, "count");
        if (count < 1 || MOST_SHARES < count) {
            throw new Refused(400, "number of shares out of range");
        }
        return count;
    }

    private static void page(HttpServletResponse response, int status, Page page) throws IOException {
        send(response, status, "text/html", page.toString());
    }

    private static void send(HttpServletResponse response, int status, String kind, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
        response.setStatus(status);
        response.setContentType(kind);
        response.setContentLength(bytes.length);
        response.getOutputStream().write(bytes);
    }
}
