package cli

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/admin/jwtauth"
)

// access configures the authentication of a server.
type access struct {
	tokens string // name of the file with the tokens

	jwt   jwtauth.Config
	roles map[string]string // roles by value of the claim
	whole []string          // roles whose tokens may lack an owner

	proxy      httpauth.ProxyConfig
	proxyRole  string
	proxyFrom  []string
	origins    []string
	sessionFor time.Duration
	secure     bool
}

func (a *access) flags(f *pflag.FlagSet) {
	f.StringVar(&a.tokens, "tokens", "", "file with the accepted tokens: a JSON array of the entries that flowctl token prints")
	f.StringVar(&a.jwt.Issuer, "jwt-issuer", "", "accept JSON Web Tokens of this issuer (claim iss)")
	f.StringVar(&a.jwt.Audience, "jwt-audience", "", "required audience of the tokens (claim aud)")
	f.StringVar(&a.jwt.JWKS, "jwt-jwks-url", "", "URL of the key set that verifies the tokens")
	f.StringSliceVar(&a.jwt.Algorithms, "jwt-alg", nil, "accepted signature algorithms; empty: RS256 and ES256")
	f.StringVar(&a.jwt.RolesClaim, "jwt-roles-claim", "roles", "claim with the roles; a dot selects a field of an object, as in realm_access.roles")
	f.StringToStringVar(&a.roles, "jwt-role", nil, "role for a value of that claim, such as oncall=operator; empty: the value is the name of the role")
	f.StringVar(&a.jwt.OwnerClaim, "jwt-owner-claim", "", "claim with the owner; a token allows access only to the runs of its owner; empty: to all runs")
	f.StringSliceVar(&a.whole, "jwt-without-owner", nil, "roles whose tokens may lack that claim and then allow access to all runs, such as operator,admin")
	f.StringVar(&a.proxy.Header, "trust-proxy-header", "", "header in which a proxy passes the name of the caller, such as X-Forwarded-User; trusted only from --trust-proxy-from")
	f.StringArrayVar(&a.proxyFrom, "trust-proxy-from", nil, "address or address prefix of the proxy, such as 10.0.0.0/24; may be repeated")
	f.StringVar(&a.proxyRole, "trust-proxy-role", string(admin.RoleViewer), fmt.Sprintf("role of callers that the proxy names: one of %v", admin.Roles()))
	f.StringVar(&a.proxy.RoleHeader, "trust-proxy-role-header", "", "header in which the proxy passes the role; empty: none")
	f.StringArrayVar(&a.origins, "cors-origin", nil, "allow pages of this origin to send requests with tokens, such as https://app.example.com; may be repeated")
	f.DurationVar(&a.sessionFor, "session-for", 12*time.Hour, "maximum duration of a browser session")
	f.BoolVar(&a.secure, "secure-cookies", false, "mark cookies as Secure, because browsers connect through a proxy that terminates TLS")
}

// known reports whether the server authenticates requests.
func (a *access) known() bool { return a.tokens != "" || a.jwt.Issuer != "" || a.proxy.Header != "" }

// config returns the configuration of the HTTP API. It returns an error if the flags contradict
// each other.
func (a *access) config() (cfg api.Config, err error) {
	for flag, set := range map[string]bool{
		"--jwt-audience": a.jwt.Issuer == "" && a.jwt.Audience != "", "--jwt-jwks-url": a.jwt.Issuer == "" && a.jwt.JWKS != "",
		"--jwt-role": a.jwt.Issuer == "" && len(a.roles) > 0, "--jwt-owner-claim": a.jwt.Issuer == "" && a.jwt.OwnerClaim != "",
		"--jwt-without-owner": a.jwt.OwnerClaim == "" && len(a.whole) > 0,
		"--trust-proxy-from":  a.proxy.Header == "" && len(a.proxyFrom) > 0, "--trust-proxy-role-header": a.proxy.Header == "" && a.proxy.RoleHeader != "",
		"--cors-origin": !a.known() && len(a.origins) > 0,
	} {
		if set {
			return cfg, &admin.InputError{What: flag + " has no effect alone", Fix: "combine it with --jwt-issuer, --jwt-owner-claim, --trust-proxy-header or --tokens: see flowctl serve --help"}
		}
	}
	if cfg.Auth, err = a.authenticator(); err != nil {
		return cfg, err
	}
	if cfg.Auth != nil {
		if cfg.Session, err = httpauth.NewSession(cfg.Auth, httpauth.SessionConfig{Lasts: a.sessionFor, Secure: a.secure}); err != nil {
			return cfg, err
		}
	}
	if len(a.origins) > 0 {
		if cfg.CORS, err = httpauth.NewCORS(a.origins...); err != nil {
			return cfg, err
		}
	}
	if a.proxy.Header == "" {
		return cfg, nil
	}
	a.proxy.Role = admin.Role(a.proxyRole)
	for _, text := range a.proxyFrom {
		from, err := prefix(text)
		if err != nil {
			return cfg, &admin.InputError{What: fmt.Sprintf("--trust-proxy-from %q: %v", text, err), Fix: "give an address or a prefix, such as 10.0.0.7 or 10.0.0.0/24"}
		}
		a.proxy.From = append(a.proxy.From, from)
	}
	cfg.Proxy, err = httpauth.NewProxy(a.proxy)
	return cfg, err
}

// prefix parses an IP address or a prefix of IP addresses.
func prefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	at, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return at.Prefix(at.BitLen())
}

// authenticator returns an authenticator for JWTs, for the tokens of a file, or for both. It
// returns nil if neither is configured.
func (a *access) authenticator() (admin.Authenticator, error) {
	tokens, err := tokensOf(a.tokens)
	if err != nil || a.jwt.Issuer == "" {
		return tokens, err
	}
	a.jwt.Else = tokens
	for value, role := range a.roles {
		if a.jwt.Roles == nil {
			a.jwt.Roles = map[string]admin.Role{}
		}
		a.jwt.Roles[value] = admin.Role(role)
	}
	for _, role := range a.whole {
		a.jwt.WithoutOwner = append(a.jwt.WithoutOwner, admin.Role(role))
	}
	auth, err := jwtauth.New(a.jwt)
	if err != nil { // Return nil explicitly. A nil *Authenticator in an admin.Authenticator would not equal nil.
		return nil, err
	}
	return auth, nil
}

// tokensOf returns an authenticator for the tokens of a file, or nil if file is empty.
func tokensOf(file string) (admin.Authenticator, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, &admin.InputError{What: "cannot read the tokens: " + err.Error(), Fix: "give the name of the file with --tokens"}
	}
	defer f.Close()
	all, err := admin.ReadTokens(f)
	if err != nil {
		return nil, err
	}
	tokens, err := admin.NewTokens(all, nil)
	if err != nil { // Return nil explicitly. A nil *Tokens in an admin.Authenticator would not equal nil.
		return nil, err
	}
	return tokens, nil
}
