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
	f.StringVar(&a.tokens, "tokens", "", "file with the tokens that are known: a JSON array of what flowctl token prints")
	f.StringVar(&a.jwt.Issuer, "jwt-issuer", "", "accept JSON Web Tokens of this issuer, as they have it in iss")
	f.StringVar(&a.jwt.Audience, "jwt-audience", "", "for this audience, as they have it in aud")
	f.StringVar(&a.jwt.JWKS, "jwt-jwks-url", "", "URL of the keys that sign them")
	f.StringSliceVar(&a.jwt.Algorithms, "jwt-alg", nil, "algorithms that may sign them; none: RS256 and ES256")
	f.StringVar(&a.jwt.RolesClaim, "jwt-roles-claim", "roles", "claim with the roles; realm_access.roles leads into an object")
	f.StringToStringVar(&a.roles, "jwt-role", nil, "as oncall=operator: which role a value of that claim is; none: it is called as the role")
	f.StringVar(&a.jwt.OwnerClaim, "jwt-owner-claim", "", "claim with the owner of the runs that they are limited to; empty: they are not")
	f.StringSliceVar(&a.whole, "jwt-without-owner", nil, "roles whose tokens may lack that claim, and are limited to no owner, as operator,admin")
	f.StringVar(&a.proxy.Header, "trust-proxy-header", "", "header in which a proxy names the caller, as X-Forwarded-User: believed from --trust-proxy-from only")
	f.StringArrayVar(&a.proxyFrom, "trust-proxy-from", nil, "address of that proxy, or a prefix of some, as 10.0.0.0/24; may be given more than once")
	f.StringVar(&a.proxyRole, "trust-proxy-role", string(admin.RoleViewer), fmt.Sprintf("role of those who come by it: one of %v", admin.Roles()))
	f.StringVar(&a.proxy.RoleHeader, "trust-proxy-role-header", "", "header in which the proxy names the role; empty: none")
	f.StringArrayVar(&a.origins, "cors-origin", nil, "let pages of this origin ask by tokens, as https://app.example.com; may be given more than once")
	f.DurationVar(&a.sessionFor, "session-for", 12*time.Hour, "how long a login of a browser is good at most")
	f.BoolVar(&a.secure, "secure-cookies", false, "browsers come by TLS, which a proxy has: their cookies are Secure")
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
			return cfg, &admin.InputError{What: flag + " alone does nothing", Fix: "give --jwt-issuer, --jwt-owner-claim, --trust-proxy-header or --tokens with it: see flowctl serve --help"}
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
			return cfg, &admin.InputError{What: fmt.Sprintf("--trust-proxy-from %q: %v", text, err), Fix: "give an address or a prefix, as 10.0.0.7 or 10.0.0.0/24"}
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
		return nil, &admin.InputError{What: "the tokens cannot be read: " + err.Error(), Fix: "name their file by --tokens"}
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
