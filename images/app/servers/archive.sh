# Runs in an image while it is built: starts an application server once with a database, so that Java writes the classes
# that it loads into an archive. Guests map that archive instead of reading and checking each class again.
#   archive.sh HOME SERVER CONFIGURATION IP, after which follow the options and arguments of Java
set -eu
home=$1 server=$2 configuration=$3 ip=$4
shift 4
work=/tmp/archive
mkdir -p $work/data
cat > $work/my.cnf <<END
[mariadbd]
datadir = $work/data
socket = $work/socket
pid_file = $work/pid
bind_address = $ip
skip_name_resolve = on
innodb_use_native_aio = off
END
# One statement a line.
{
    printf 'create database mysql;\nuse mysql;\nset @auth_root_socket = null;\n'
    cat /usr/share/*/*_system_tables.sql /usr/share/*/*_system_tables_data.sql
    printf "flush privileges;\ncreate user bakeoff identified by 'bakeoff';\n"
    printf 'grant all on *.* to bakeoff;\ncreate database bakeoff;\n'
} > $work/set-up.sql
mariadbd --defaults-file=$work/my.cnf --user=root --bootstrap --enforce-storage-engine= < $work/set-up.sql
mariadbd --defaults-file=$work/my.cnf --user=root &
database=$!
tries=0
until [ -S $work/socket ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { echo "the database did not start" >&2; exit 1; }
    sleep 0.1
done
mkdir -p "$(dirname "$configuration")"
application=/usr/share/bakeoff/enterprise-trade
[ "$server" != wildfly ] || application="<fs-exploded path=\"$application\"/>"
sed -e "s|{ip}|$ip|; s|{port}|8080|; s|{database}|jdbc:mariadb://$ip:3306/bakeoff|; s|{threads}|9|g; s|{cpus}|1|" \
    -e "s|{pool}|8|g; s|{connections}|16|; s|{driver}|/usr/share/java/mariadb-java-client.jar|; s|{application}|$application|" \
    "/usr/share/bakeoff/app-servers/$server.xml" > "$configuration"
java=/usr/lib/jvm/default-java/bin/java
# The archive is made on top of that of the base classes, which may be missing or older than the file system says.
$java -Xshare:on -version > /dev/null 2>&1 || $java -Xshare:dump > /dev/null
$java -XX:ArchiveClassesAtExit=$home/classes.jsa -Xms128m -Xmx128m -XX:-UsePerfData -XX:TieredStopAtLevel=1 \
    -Djava.net.preferIPv4Stack=true -Djava.io.tmpdir=$work "$@" > $work/log 2>&1 &
process=$!
tries=0
until perl -MIO::Socket::INET -e '
    my $s = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => 8080) or exit 1;
    for my $path ("/up", "/login") {
        my $s = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => 8080) or exit 1;
        my $form = "user=1&password=x";
        print $s $path eq "/up" ? "GET /up HTTP/1.0\r\n\r\n"
            : "POST /login HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 17\r\n\r\n$form";
        my $answer = join "", <$s>;
        exit 1 if $path eq "/up" && $answer !~ /^HTTP\S+ 200/;
    }' "$ip"; do
    tries=$((tries + 1))
    if [ $tries -ge 300 ] || ! kill -0 $process; then
        tail -n 20 $work/log >&2
        exit 1
    fi
    sleep 0.2
done
kill -TERM $process
wait $process || true
kill -TERM $database
wait $database || true
[ -s $home/classes.jsa ] || { tail -n 20 $work/log >&2; exit 1; }
chmod a+r $home/classes.jsa
rm -rf $work
