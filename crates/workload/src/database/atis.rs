//! `atis`: queries to an air travel information system: joins, distinct values, groups.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::data::stream;
use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

pub(super) struct Atis {
    scale: Scale,
    flights: Vec<Flight>,
    /// One-way prices by fare. Flight n has fare n.
    fares: Vec<u64>,
}

/// A flight; its number is its index.
struct Flight {
    from: u64,
    to: u64,
    airline: u64,
    stops: u64,
    arrival: u64,
}

/// Rows of the small tables, which are not scaled. With 3126 flights and their fares, all 28 tables
/// have the 9768 rows of `sql-bench`.
const STATES: u64 = 12;
const CITIES: u64 = 48;
const AIRPORTS: u64 = 60;
const AIRLINES: u64 = 40;
const AIRCRAFT: u64 = 30;

/// Number of tables of codes, and rows of each.
const CODES: u64 = 20;
const EXPLAINED: u64 = 10;

/// Upper bound of the stops of a flight, exclusive.
const STOPS: u64 = 4;

impl Atis {
    pub(super) fn new(scale: Scale, seed: u64) -> Self {
        let mut stream = stream(seed, "database/atis");
        let count = scale.scaled(3126, 60);
        let flights = (0..count).map(|_| Flight {
            from: stream.below(AIRPORTS),
            to: stream.below(AIRPORTS),
            airline: stream.below(AIRLINES),
            stops: stream.below(STOPS),
            arrival: stream.below(2400),
        });
        let flights: Vec<_> = flights.collect();
        let fares = (0..count).map(|_| 50 + stream.below(1000)).collect();
        Self {
            scale,
            flights,
            fares,
        }
    }

    /// The joins of states and cities, of flights and airports, and of flights and fares.
    fn joins(&self, client: &mut Client) -> Result<()> {
        let cities = (0..CITIES).map(|city| format!("city{city:02}|state{:02}", city % STATES));
        let cities: Vec<_> = cities.collect();
        for _ in 0..self.scale.scaled(500, 5) {
            client.expect_rows(
                "select city_name, state_name from city, state \
                 where city.state_code = state.state_code order by city_code",
                &cities,
            )?;
        }
        for n in 0..self.scale.scaled(100, 10) {
            let airline = n % AIRLINES;
            let flights = self.flights.iter().zip(0..);
            let flights = flights.filter(|(flight, _)| flight.airline == airline);
            let rows =
                flights.map(|(flight, code)| format!("{code}|city{:02}", flight.from % CITIES));
            client.expect_rows(
                &format!(
                    "select flight_code, city_name from flight, airport, city \
                     where flight.from_airport = airport.airport_code \
                     and airport.city_code = city.city_code and flight.airline_code = {airline} \
                     order by flight_code"
                ),
                &rows.collect::<Vec<_>>(),
            )?;
        }
        for n in 0..self.scale.scaled(100, 10) {
            let from = n % AIRPORTS;
            let with_prices = self.flights.iter().zip(&self.fares);
            let leaving = with_prices.filter(|(flight, _)| flight.from == from);
            let (flights, sum) = leaving.fold((0, 0), |(flights, sum), (_, price)| {
                (flights + 1, sum + price)
            });
            client.expect_row(
                &format!(
                    "select count(*), coalesce(sum(one_way), 0) from flight, flight_fare, fare \
                     where flight.flight_code = flight_fare.flight_code \
                     and flight_fare.fare_code = fare.fare_code and from_airport = {from}"
                ),
                format!("{flights}|{sum}"),
            )?;
        }
        // Also detects losses of rows that were not queried.
        client.expect_row(
            "select count(*), sum(one_way) from flight, flight_fare, fare \
             where flight.flight_code = flight_fare.flight_code \
             and flight_fare.fare_code = fare.fare_code",
            format!("{}|{}", self.fares.len(), self.fares.iter().sum::<u64>()),
        )
    }

    /// Airlines and destinations of an airport.
    fn distinct(&self, client: &mut Client) -> Result<()> {
        for n in 0..self.scale.scaled(800, 10) {
            let from = n % AIRPORTS;
            let leaving = || self.flights.iter().filter(|flight| flight.from == from);
            let airlines: BTreeSet<_> = leaving().map(|flight| flight.airline).collect();
            let airlines: Vec<_> = airlines.iter().map(ToString::to_string).collect();
            client.expect_rows(
                &format!(
                    "select distinct airline_code from flight where from_airport = {from} \
                     order by airline_code"
                ),
                &airlines,
            )?;
            let places: BTreeSet<_> = leaving().map(|flight| flight.to).collect();
            client.expect_row(
                &format!(
                    "select count(distinct to_airport) from flight where from_airport = {from}"
                ),
                places.len(),
            )?;
        }
        Ok(())
    }

    /// Number and last arrival of flights by airline, for a number of stops.
    fn groups(&self, client: &mut Client) -> Result<()> {
        for n in 0..self.scale.scaled(2600, 10) {
            let stops = n % STOPS;
            let mut groups = BTreeMap::<u64, (u64, u64)>::new();
            for flight in self.flights.iter().filter(|flight| flight.stops == stops) {
                let (count, last) = groups.entry(flight.airline).or_default();
                *count += 1;
                *last = flight.arrival.max(*last);
            }
            let groups = groups
                .iter()
                .map(|(airline, (count, last))| format!("{airline}|{count}|{last}"));
            client.expect_rows(
                &format!(
                    "select airline_code, count(*), max(arrival) from flight where stops = {stops} \
                     group by airline_code order by airline_code"
                ),
                &groups.collect::<Vec<_>>(),
            )?;
        }
        Ok(())
    }

    fn fill_small(client: &mut Client) -> Result<()> {
        let named = [
            ("state", STATES),
            ("airline", AIRLINES),
            ("aircraft", AIRCRAFT),
        ];
        for (table, rows) in named {
            client.execute(&format!(
                "create table {table} ({table}_code int not null primary key, {table}_name varchar(20))"
            ))?;
            for code in 0..rows {
                client
                    .expect_affected(&insert(table, [format!("{code}, '{table}{code:02}'")]), 1)?;
            }
        }
        client.execute(
            "create table city (city_code int not null primary key, city_name varchar(20), \
             state_code int not null)",
        )?;
        for code in 0..CITIES {
            let row = format!("{code}, 'city{code:02}', {}", code % STATES);
            client.expect_affected(&insert("city", [row]), 1)?;
        }
        client.execute(
            "create table airport (airport_code int not null primary key, city_code int not null)",
        )?;
        for code in 0..AIRPORTS {
            client.expect_affected(
                &insert("airport", [format!("{code}, {}", code % CITIES)]),
                1,
            )?;
        }
        for table in 0..CODES {
            client.execute(&format!(
                "create table code_{table} (code int not null primary key, meaning varchar(40))"
            ))?;
            for code in 0..EXPLAINED {
                let row = format!("{code}, 'code {code} of table {table}'");
                client.expect_affected(&insert(&format!("code_{table}"), [row]), 1)?;
            }
        }
        Ok(())
    }
}

impl Procedure for Atis {
    fn fill(&self, client: &mut Client) -> Result<()> {
        Self::fill_small(client)?;
        client.execute(
            "create table flight (flight_code int not null primary key, from_airport int not null, \
             to_airport int not null, airline_code int not null, aircraft_code int not null, \
             stops int not null, arrival int not null)",
        )?;
        client.execute("create index flight_way on flight (from_airport, to_airport)")?;
        client.execute(
            "create table fare (fare_code int not null primary key, one_way int not null)",
        )?;
        client.execute(
            "create table flight_fare (flight_code int not null, fare_code int not null, \
             primary key (flight_code, fare_code))",
        )?;
        for ((flight, price), code) in self.flights.iter().zip(&self.fares).zip(0..) {
            let Flight {
                from,
                to,
                airline,
                stops,
                arrival,
            } = flight;
            let aircraft = code % AIRCRAFT;
            let row = format!("{code}, {from}, {to}, {airline}, {aircraft}, {stops}, {arrival}");
            client.expect_affected(&insert("flight", [row]), 1)?;
            client.expect_affected(&insert("fare", [format!("{code}, {price}")]), 1)?;
            client.expect_affected(&insert("flight_fare", [format!("{code}, {code}")]), 1)?;
        }
        ["flight", "fare", "flight_fare"]
            .iter()
            .try_for_each(|table| client.analyze(table))
    }

    fn query(&self, client: &mut Client) -> Result<()> {
        self.joins(client)?;
        self.distinct(client)?;
        self.groups(client)?;
        for table in 0..CODES {
            let sql = format!("select count(*), sum(code) from code_{table}");
            client.expect_row(
                &sql,
                format!("{EXPLAINED}|{}", EXPLAINED * (EXPLAINED - 1) / 2),
            )?;
            client.execute(&format!("drop table code_{table}"))?;
        }
        let tables = [
            "state",
            "airline",
            "aircraft",
            "city",
            "airport",
            "flight",
            "fare",
            "flight_fare",
        ];
        tables
            .iter()
            .try_for_each(|table| client.execute(&format!("drop table {table}")))
    }
}
