package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
)

func tokenCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke the tokens that `thole serve` accepts",
		Example: `  thole token create ci --grant 'project:*=write'
  thole token list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(tokenCreateCommand(a), tokenListCommand(a), tokenRevokeCommand(a))
	return c
}

func tokenCreateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print its secret, once",
		Long: `Create a token. What it may do is said by grants: PATTERN=ACCESS, with a space,
"kind:*" or "*" for the pattern and read, write, work or admin for the access, optionally
narrowed to threads: 'project:shop=read@thrd_1,thrd_2'. Each access includes the ones
before it; work is for workers that claim runs of other people's private threads.`,
		Example: "  thole token create ci --grant 'project:*=write' --expires 720h",
		Args:    cobra.ExactArgs(1),
	}
	grants := c.Flags().StringArray("grant", nil, "what it may do; may be given more than once")
	actor := c.Flags().String("actor", "", "who its holder acts as, such as user:42 (default token:<id>)")
	expires := c.Flags().Duration("expires", 0, "how long it lives, such as 720h; without it, until it is revoked")
	c.RunE = func(cmd *cobra.Command, args []string) (err error) {
		t := auth.Token{Name: args[0], Actor: *actor}
		for _, g := range *grants {
			grant, err := parseGrant(g)
			if err != nil {
				return err
			}
			t.Grants = append(t.Grants, grant)
		}
		if len(t.Grants) == 0 {
			return errors.New("say what the token may do, for example --grant 'project:*=write'")
		}
		limited := cmd.Flags().Changed("expires")
		if limited && (*expires <= 0 || *expires > thole.MaxTTL) {
			return fmt.Errorf("--expires %v is not a time to live, such as 720h; leave --expires out for a token that lives until it is revoked", *expires)
		}
		s, err := a.open(cmd.Context(), true, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if limited {
			t.Expires = s.Now().Add(*expires)
		}
		secret, t, err := auth.Create(cmd.Context(), s, t)
		if err != nil {
			return err
		}
		return a.printer(cmd.OutOrStdout()).print(struct {
			auth.Token
			Secret string `json:"secret"`
		}{t, secret}, "%s", secret)
	}
	return c
}

// parseGrant reads PATTERN=ACCESS[@THREAD,…].
func parseGrant(s string) (auth.Grant, error) {
	i := strings.LastIndexByte(s, '=') // a space's name may hold one, the rest does not
	if i < 0 {
		return auth.Grant{}, fmt.Errorf("%w: grant %q is not PATTERN=ACCESS", thole.ErrInvalid, s)
	}
	pattern, rest := s[:i], s[i+1:]
	if at := strings.LastIndexByte(pattern, '='); at >= 0 && auth.Access(pattern[at+1:]).Allows(auth.Read) {
		return auth.Grant{}, fmt.Errorf("%w: grant %q gives two accesses; a token may have several grants", thole.ErrInvalid, s)
	}
	access, threads, narrowed := strings.Cut(rest, "@")
	g := auth.Grant{Space: pattern, Access: auth.Access(access)}
	if narrowed {
		g.Threads = strings.Split(threads, ",")
	}
	return g, g.Check()
}

func tokenListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List tokens, without their secrets",
		Example: "  thole token list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := a.printer(cmd.OutOrStdout())
			return a.reading(cmd.Context(), func(s *thole.Store) error {
				for after := ""; ; {
					tokens, err := auth.List(cmd.Context(), s, after, 100)
					if err != nil {
						return err
					}
					if len(tokens) == 0 && after == "" {
						_ = sayf(cmd.ErrOrStderr(), "no token yet; make one with `thole token create`\n")
					}
					for _, t := range tokens {
						if err := p.print(t, "%s  %-20s %-16s made %s  %-28s %s", t.ID, t.Name, t.Actor, t.Created.Format(time.DateOnly), lifeText(t), grantsText(t.Grants)); err != nil {
							return err
						}
					}
					if len(tokens) < 100 {
						return nil
					}
					after = tokens[len(tokens)-1].ID
				}
			})
		},
	}
}

// lifeText says until when a token lives.
func lifeText(t auth.Token) string {
	if t.Expires.IsZero() {
		return "never expires"
	}
	return "expires " + t.Expires.Format("2006-01-02 15:04") + " UTC"
}

func grantsText(grants []auth.Grant) string {
	var b strings.Builder
	for _, g := range grants {
		fmt.Fprintf(&b, "%s=%s", g.Space, g.Access)
		if len(g.Threads) > 0 {
			fmt.Fprintf(&b, "@%s", strings.Join(g.Threads, ","))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func tokenRevokeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token everywhere at once",
		Long: `Revoke a token by its id, which ` + "`thole token list`" + ` shows: names may occur more than
once. What its holder has open, such as event streams, ends within moments.`,
		Example: "  thole token revoke tok_…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			s, err := a.open(cmd.Context(), false, nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			if thole.CheckID("tok", args[0]) != nil {
				return notAnID(cmd.Context(), s, args[0])
			}
			return auth.Revoke(cmd.Context(), s, args[0])
		},
	}
}

// notAnID says that a token is revoked by its id, and which ids have the name that
// was given.
func notAnID(ctx context.Context, s *thole.Store, name string) error {
	var ids []string
	for after := ""; ; {
		tokens, err := auth.List(ctx, s, after, thole.MaxPage)
		if err != nil {
			return err
		}
		for _, t := range tokens {
			if t.Name == name {
				ids = append(ids, t.ID)
			}
		}
		if len(tokens) < thole.MaxPage {
			break
		}
		after = tokens[len(tokens)-1].ID
	}
	if len(ids) == 0 {
		return fmt.Errorf("%w: %q is not the id of a token (tok_…), and none has that name; see `thole token list`", thole.ErrInvalid, name)
	}
	return fmt.Errorf("%w: a token is revoked by its id; %q is the name of %s", thole.ErrInvalid, name, strings.Join(ids, ", "))
}
