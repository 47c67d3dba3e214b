package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Open returns the store that a URL names. It checks the URL and does not dial;
// the first operation does.
//
//	redis://user:password@host:6379/0                       one server
//	redis+cluster://user:password@host:6379?addr=host2:6379 a cluster, and more of its nodes
//	redis+sentinel://user:password@host:26379/0?master_name=main&addr=host2:26379
//	                                                        the master that Sentinels watch
//
// With rediss in place of redis the connections use TLS. "?cluster=true" and
// "?master_name=" say the same as the schemes. Besides, there are
//
//	prefix, partitions, wait_replicas, wait_timeout         see Config
//	pool_size                                               connections per server, default 10
//
// and all parameters of redis.ParseURL, redis.ParseClusterURL and
// redis.ParseFailoverURL, such as read_timeout.
func Open(url string) (*Store, error) {
	s, err := openURL(url)
	if err != nil {
		return nil, fmt.Errorf("open redis store: %w", err)
	}
	return s, nil
}

func openURL(text string) (*Store, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, redactError(err)
	}
	if !slices.Contains(schemes, u.Scheme) {
		return nil, fmt.Errorf("scheme %q is none of %s", u.Scheme, strings.Join(schemes, ", "))
	}
	if u.Host == "" {
		return nil, fmt.Errorf("the URL names no host: write %s://host:6379", u.Scheme)
	}
	cfg, kind, err := settings(u)
	if err != nil {
		return nil, err
	}
	client, err := newClient(u, kind, cfg.WaitTimeout)
	if err != nil {
		return nil, redactError(err)
	}
	s, err := open(client, cfg)
	if err != nil {
		_ = client.Close() // it has not been used
		return nil, err
	}
	s.owned = true
	return s, nil
}

// redactError keeps what is wrong with a URL, but not the URL: it may hold a
// password.
func redactError(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("read the URL: %w", e.Err)
	}
	return err
}

// settings takes out of a URL what go-redis does not know, and leaves one that it
// does.
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
		return cfg, "", fmt.Errorf("cluster=%s: use true or false", cluster)
	}
	if kind == "" && query.Has("master_name") {
		kind = "sentinel"
	}
	if kind == "sentinel" && query.Get("master_name") == "" {
		return cfg, "", fmt.Errorf("the URL of a master that Sentinels watch needs ?master_name=")
	}
	cfg.Prefix = take("prefix")
	for name, to := range map[string]*int{"partitions": &cfg.Partitions, "wait_replicas": &cfg.WaitReplicas} {
		if text := take(name); text != "" {
			if *to, err = strconv.Atoi(text); err != nil || *to < 0 {
				return cfg, "", fmt.Errorf("%s=%s is not a number", name, text)
			}
		}
	}
	if text := take("wait_timeout"); text != "" {
		if cfg.WaitTimeout, err = time.ParseDuration(text); err != nil || cfg.WaitTimeout <= 0 {
			return cfg, "", fmt.Errorf("wait_timeout=%s is not a duration such as 500ms", text)
		}
	}
	u.Scheme, u.RawQuery = scheme, query.Encode()
	return cfg, kind, nil
}

// poolSize is how many connections to a server a store uses, with the one that
// it listens on.
const poolSize = 10

func newClient(u *url.URL, kind string, wait time.Duration) (redis.UniversalClient, error) {
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch kind {
	case "cluster":
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.PipelinePoolSize, o.MaintNotificationsConfig = true, -1, quiet
		limit(&o.PoolSize, &o.MaxActiveConns)
		o.ReadTimeout = patient(o.ReadTimeout, wait)
		return redis.NewClusterClient(o), nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.PipelinePoolSize, o.MaxRetries = true, -1, -1
		limit(&o.PoolSize, &o.MaxActiveConns)
		o.ReadTimeout = patient(o.ReadTimeout, wait)
		return redis.NewFailoverClient(o), nil
	}
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled, o.PipelinePoolSize, o.MaxRetries, o.MaintNotificationsConfig = true, -1, -1, quiet
	limit(&o.PoolSize, &o.MaxActiveConns)
	o.ReadTimeout = patient(o.ReadTimeout, wait)
	return redis.NewClient(o), nil
}

// patient returns the time to wait for an answer: what the URL says, but more than
// the server may itself wait for replicas.
func patient(read, wait time.Duration) time.Duration {
	if read == 0 {
		read = readTimeout
	}
	if read > 0 && read < wait+time.Second {
		return wait + time.Second
	}
	return read
}

// readTimeout is how long an answer may take. Whoever waits for a server that is
// gone waits that long, and then tries again.
const readTimeout = 3 * time.Second

// limit bounds the connections of a pool: size is what the URL says, of which one
// is for listening.
func limit(size, most *int) {
	if *size <= 0 {
		*size = poolSize
	}
	*size = max(*size-1, 1)
	if *most <= 0 || *most > *size {
		*most = *size
	}
}
