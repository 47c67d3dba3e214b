package redisstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Open returns the store with the given URL. It checks the URL but does not connect to a server,
// which the first operation does. Therefore Open succeeds even if a server is unavailable. A worker
// then waits for the server, and calls of a client fail or wait as in any other outage. The first
// operation, and Worker.Run, return the errors that are permanent: [store.ErrRefused] for a wrong
// user, a wrong password or a missing permission, [store.ErrForeign] for a prefix that other data
// uses, *[PartitionsError], *[store.VersionError], and an error for a server that is too old.
//
//	redis://user:password@host:6379/0                       one server
//	redis+cluster://user:password@host:6379?addr=host2:6379 a cluster, and more of its nodes
//	redis+sentinel://user:password@host:26379/0?master_name=main&addr=host2:26379
//	                                                        the master that Sentinels monitor
//
// If the scheme begins with rediss instead of redis, the connections use TLS. The parameters
// "?cluster=true" and "?master_name=" have the same meaning as the schemes redis+cluster and
// redis+sentinel. The other parameters are
//
//	prefix, partitions, wait_replicas, wait_timeout         see Config
//	pool_size                                               connections per server, default 10
//
// and all parameters of redis.ParseURL, redis.ParseClusterURL and redis.ParseFailoverURL, such as
// read_timeout.
func Open(url string) (*Store, error) {
	s, err := openURL(url)
	if err != nil {
		return nil, fmt.Errorf("open redis store: %w", err)
	}
	return s, nil
}

func openURL(text string) (*Store, error) {
	u, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	cfg, kind, err := settings(u)
	if err != nil {
		return nil, err
	}
	client, err := newClient(u, kind, cfg.WaitTimeout)
	if err != nil {
		return nil, err
	}
	s, err := open(client, cfg)
	if err != nil {
		_ = client.Close() // unused, so an error is irrelevant
		return nil, err
	}
	s.owned = true
	return s, nil
}

// errForm reports a URL that cannot be split into its parts. If a character of a password is not
// escaped, the rest of the password may be parsed as the host, the path or a parameter. Therefore
// no error in this file contains any part of the URL except the scheme. It also does not wrap
// errors of the packages that parse the URL, because they contain parts of the URL.
var errForm = errors.New("read the URL: it does not have the form redis://user:password@host:6379/0?parameter=value: " +
	"in a user, a password and a value write every character but letters, digits and -._~ as % and two hexadecimal digits")

// parseURL parses a URL. It returns an error if a part of a password may have been parsed as
// another part of the URL.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errForm
	}
	if !slices.Contains(schemes, u.Scheme) {
		if strings.Contains(text, "@") && !strings.Contains(text, "://") {
			return nil, errForm // the text before the colon may be a user name
		}
		return nil, fmt.Errorf("scheme %q is none of %s", u.Scheme, strings.Join(schemes, ", "))
	}
	if u.Host == "" {
		return nil, fmt.Errorf("the URL names no host: write %s://host:6379", u.Scheme)
	}
	if host := u.Hostname(); strings.Contains(host, ",") || strings.Contains(host, ":") && !strings.HasPrefix(u.Host, "[") {
		return nil, errors.New("the URL names more than one host or port: give more nodes of a cluster, and more Sentinels, as ?addr=host:port&addr=host:port")
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil || strings.ContainsAny(u.RawQuery, "?@") {
		return nil, errForm
	}
	if u.Fragment != "" || u.User == nil && strings.Contains(text, "@") {
		return nil, errForm
	}
	if database := strings.Trim(u.Path, "/"); database != "" {
		if _, err := strconv.ParseUint(database, 10, 16); err != nil {
			return nil, errForm
		}
	}
	return u, nil
}

// settings returns the settings of the store in a URL, and the kind of the client. It removes the
// settings from the URL, so that go-redis can parse the rest.
func settings(u *url.URL) (cfg Config, kind string, err error) {
	query := u.Query()
	take := func(name string) string {
		value := query.Get(name)
		query.Del(name)
		return value
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	switch cluster := take("cluster"); {
	case cluster == "true" && kind == "":
		kind = "cluster"
	case cluster != "" && cluster != "true" && cluster != "false":
		return cfg, "", errors.New("parameter cluster: use true or false")
	}
	if kind == "" && query.Has("master_name") {
		kind = "sentinel"
	}
	if kind == "sentinel" && query.Get("master_name") == "" {
		return cfg, "", errors.New("the URL of a master that Sentinels watch needs ?master_name=")
	}
	cfg.Prefix = take("prefix")
	for name, to := range map[string]*int{"partitions": &cfg.Partitions, "wait_replicas": &cfg.WaitReplicas} {
		if text := take(name); text != "" {
			if *to, err = strconv.Atoi(text); err != nil || *to < 0 {
				return cfg, "", fmt.Errorf("parameter %s is not a number", name)
			}
		}
	}
	if text := take("wait_timeout"); text != "" {
		if cfg.WaitTimeout, err = time.ParseDuration(text); err != nil || cfg.WaitTimeout <= 0 {
			return cfg, "", errors.New("parameter wait_timeout is not a duration such as 500ms")
		}
	}
	written := u.RawQuery
	u.Scheme, u.RawQuery = scheme, query.Encode()
	return cfg, kind, checkParameters(u, kind, written)
}

// checkParameters returns an error for a parameter that go-redis does not accept. The error
// contains the name of the parameter if go-redis knows the parameter. Otherwise the name may be a
// part of a password, so the error contains only its position in the query.
func checkParameters(u *url.URL, kind, written string) error {
	takes := func(name, value string) bool {
		alone := url.URL{Scheme: u.Scheme, Host: "localhost", RawQuery: url.Values{name: {value}}.Encode()}
		_, err := options(alone.String(), kind)
		return err == nil
	}
	for name, values := range u.Query() {
		for _, value := range values {
			switch {
			case name == "addr":
				if host, port, err := net.SplitHostPort(value); err != nil || host == "" || port == "" || strings.ContainsAny(value, "@/,") {
					return errors.New("parameter addr is not host:port: repeat it for more nodes, and write the user and the password once, before the first host")
				}
			case takes(name, value):
			case takes(name, ""):
				return fmt.Errorf("parameter %s has a value that cannot be read", name)
			default:
				return fmt.Errorf("parameter %d of the URL is unknown", positionOf(name, written))
			}
		}
	}
	return nil
}

// positionOf returns the position of the parameter name in a query, counted from 1. The name may
// be escaped in the query.
func positionOf(name, query string) int {
	return 1 + slices.IndexFunc(strings.Split(query, "&"), func(pair string) bool {
		key, _, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		return err == nil && key == name
	})
}

// poolSize is the default number of connections to a server, including the connection for published
// messages.
const poolSize = 10

func newClient(u *url.URL, kind string, wait time.Duration) (redis.UniversalClient, error) {
	parsed, err := options(u.String(), kind)
	if err != nil {
		return nil, errForm
	}
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch o := parsed.(type) {
	case *redis.ClusterOptions:
		o.ContextTimeoutEnabled, o.PipelinePoolSize, o.MaintNotificationsConfig = true, -1, quiet
		limit(&o.PoolSize, &o.MaxActiveConns)
		o.ReadTimeout = patient(o.ReadTimeout, wait)
		return redis.NewClusterClient(o), nil
	case *redis.FailoverOptions:
		o.ContextTimeoutEnabled, o.PipelinePoolSize, o.MaxRetries = true, -1, -1
		limit(&o.PoolSize, &o.MaxActiveConns)
		o.ReadTimeout = patient(o.ReadTimeout, wait)
		return redis.NewFailoverClient(o), nil
	case *redis.Options:
		o.ContextTimeoutEnabled, o.PipelinePoolSize, o.MaxRetries, o.MaintNotificationsConfig = true, -1, -1, quiet
		limit(&o.PoolSize, &o.MaxActiveConns)
		o.ReadTimeout = patient(o.ReadTimeout, wait)
		return redis.NewClient(o), nil
	}
	return nil, fmt.Errorf("options %T", parsed)
}

// options parses a URL into the options of the given kind of go-redis client.
func options(text, kind string) (any, error) {
	switch kind {
	case "cluster":
		return redis.ParseClusterURL(text)
	case "sentinel":
		return redis.ParseFailoverURL(text)
	}
	return redis.ParseURL(text)
}

// patient returns the timeout for an answer. It is the timeout in the URL, but longer than the time
// for which the server may wait for replicas.
func patient(read, wait time.Duration) time.Duration {
	if read == 0 {
		read = readTimeout
	}
	if read > 0 && read < wait+time.Second {
		return wait + time.Second
	}
	return read
}

// readTimeout is the default timeout for an answer. After this time, a call to a server that has
// failed is retried.
const readTimeout = 3 * time.Second

// limit sets the limits of a connection pool. size is the number in the URL, which includes the
// connection for published messages. 0 means poolSize.
func limit(size, most *int) {
	if *size <= 0 {
		*size = poolSize
	}
	*size = max(*size-1, 1)
	if *most <= 0 || *most > *size {
		*most = *size
	}
}
