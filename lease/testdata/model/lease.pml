/* lease.pml: one resource of withlease, step by step, as it is built. README.md says what is covered, check.sh has the runs.
 *
 * A step is one system call that another process can see. SIGKILL may come before any step of a wrapper (`unless`); the
 * kernel then closes what it had open, in any order. d_step holds what the kernel does at once, and what is read under M
 * and changes under M only. The labels in brackets are the ones that the comments of the Go code name.
 *
 * Settings (-D to spin)
 *   NP=2..4      withlease processes, which join in this order  CRASH=n   SIGKILLs of wrappers   FR=n  rounds of the shell lock
 *   FORCE        one forced release                             DAEMON    the command leaves a daemon that keeps the witness for ever
 *   STOP=p       process p may be stopped for good while it waits, and keeps its ticket
 *   KEEP=p       the wait of p may run out and leave a kept place; process NP-1 comes back for it, in time, late or never
 *   LOOKALL      unsupervised too, the look comes before the gate, for everybody
 *   SUP          a supervisor starts, grants NG=2|3 times, in any order, and may stop; its commands die with SUPCRASH
 *   EXEMPT=p     process p needs no grant                       REVOKE    one grant may be taken back
 *   WRITEFAIL    the write of S in a claim may fail              TOGETHER  the grant behind may run out with the first one
 *   fewer histories: KILL=mask who may be killed; NOSTOP the supervisor stays; EARLY it is there from the start;
 *   GIVE=231 the grants in this order (p+1); LATE grants, kills and time only when all have joined;
 *   STOPPED the one of STOP is stopped when it has joined
 *   COUNT        nobody crashes or is forced: who is woken must claim (one wake-up per hand-over)
 *
 * Mutations, each of which must fail: README.md names them. They stand where they change a step.
 */
#ifndef NP
#define NP 3
#endif
#ifndef CRASH
#define CRASH 1
#endif
#ifndef FR
#define FR 0
#endif
#ifndef NG
#define NG 2
#endif
#ifndef KILL
#define KILL 15
#endif
#ifndef STOP
#define STOP 9
#endif
#ifndef KEEP
#define KEEP 9
#endif
#ifndef EXEMPT
#define EXEMPT 9
#endif
#define F 9			/* the shell lock's directory; 1..NP: the lease of process 0..NP-1 */

byte M;				/* state.lock: 0 free, p+1, or 10.. for the others */
byte L;				/* what <resource> is: 0 nothing */
bit Fempty;			/* the shell lock's directory has no holder.json yet */
bit wl[NP+1], wc[NP+1], wh[NP+1];	/* witness of lease o: lock held; last close begun; hung up */
bit wr[NP], cr[NP];		/* wrapper / command has the witness open */
bit fb[NP];			/* a force byte lies in the witness */
bit tf[NP], tl[NP], tc[NP], th[NP];	/* ticket FIFO of p: its name is there; lock held; last close begun; hung up */
bit mb[NP];			/* a byte lies in the ticket FIFO: the mailbox */
bit kp[NP], lp[NP];		/* kept place; its deadline has passed */
byte tick[NP], ord[NP], last;	/* ticket number; number of the first join (P3) */
byte wt[NP], wo[NP];		/* polled for hang-up: ticket of q (q+1), witness of lease o */
bit xt[NP], rk[NP], tm[NP];	/* a timer stands at an expiry or deadline; the 2 s re-check; one of them fired */
bit sup, rel = 1, moved;	/* S: supervised; `released` noted since the last holder; the queue moved up by time, not yet seen */
byte g[4];			/* S: the grants in order (p+1); g[3] stays 0 */
bit seen;			/* S: somebody saw the shell lock hold */
bit running[NP], fcs;		/* the command / the shell lock's user is at work */
bit fin[NP], killed[NP], claimed[NP], gone[NP], stopped[NP], forced[10];
byte claims;
hidden byte i, k, n, u;		/* only inside d_step */

#define LIVE(q)   (tick[q] && !killed[q] && !claimed[q] && !gone[q])
#define ABLE(q)   (LIVE(q) && !stopped[q])
#define LOCKED(x) (tf[x] && tl[x])	/* what a probe of ticket x says under M */
#define LEASE(o)  (o >= 1 && o <= NP)
#define DEAD(o)   (LEASE(o) && !wl[o])
#define NEWS(p)   (mb[p] || tm[p] || (wt[p] != 0 && th[wt[p]-1]) || (wo[p] != 0 && wh[wo[p]]))
#define SHIFT()   g[0] = g[1]; g[1] = g[2]; g[2] = 0
#ifdef PLAINRENAME
#define VACANT (L == 0 || (L == F && Fempty))	/* rename(2) replaces an empty directory */
#else
#define VACANT (L == 0)
#endif
#ifdef LATE
#define READY (last == NP)
#else
#define READY true
#endif
#define LOCK(who) atomic { M == 0 -> M = who }

/* The last close of a FIFO: the kernel drops the lock first and hangs up then. */
#ifdef HUPFIRST
#define CLOSE_W(o) wh[o] = 1; wc[o] = 1
#define CLOSE_T(p) th[p] = 1; tc[p] = 1
#else
#define CLOSE_W(o) wl[o] = 0; wc[o] = 1
#define CLOSE_T(p) tl[p] = 0; tc[p] = 1
#endif
#define DROP_WRAPPER(p) d_step { wr[p] = 0; if :: !cr[p] && wl[p+1] -> CLOSE_W(p+1) :: else fi }

/* [wake.first] unsupervised: a byte for the first live ticket in line (not for the one who tells). A kept place that comes
 * first has nobody to be told. Probe and byte are one step: who dies between them hangs up, and its successor hears that. */
inline tell_first(self)
{
	n = 0; i = 0;
	do
	:: i < NP ->
		if
		:: (LOCKED(i) || (kp[i] && !lp[i])) && (n == 0 || tick[i] < tick[n-1]) -> n = i+1
		:: else
		fi;
		i++
	:: else -> break
	od;
	if :: n != 0 && n != self+1 && LOCKED(n-1) -> mb[n-1] = 1 :: else fi
}

/* [wake.places] supervised: a byte for each waiter that watches the witness, by the queue as it is after the change */
inline tell_places(self)
{
#ifdef PLACES		/* places 1 and 2, live or not, and the exempt: as first written down */
	i = 0;
	do
	:: i < 2 -> if :: g[i] != 0 && g[i] != self+1 && LOCKED(g[i]-1) -> mb[g[i]-1] = 1 :: else fi; i++
	:: else -> break
	od;
#else			/* the first two live grants, and the exempt */
	i = 0; k = 0;
	do
	:: i < NG && k < 2 ->
		if
		:: g[i] != 0 && LOCKED(g[i]-1) -> k++;
			if :: g[i] != self+1 -> mb[g[i]-1] = 1 :: else fi
		:: else
		fi;
		i++
	:: else -> break
	od;
#endif
#if EXEMPT < NP
	if :: EXEMPT != self && LOCKED(EXEMPT) -> mb[EXEMPT] = 1 :: else fi;
#endif
	skip
}
inline tell(self) { if :: sup -> tell_places(self) :: else -> tell_first(self) fi }

/* a moment has come for which timers stand */
inline a_timer() { i = 0; do :: i < NP -> if :: xt[i] -> tm[i] = 1 :: else fi; i++ :: else -> break od }

/* the nearest earlier name in the line of tickets, into q */
inline nearest(p)
{
	q = 0; i = 0;
	do
	:: i < NP ->
		if
		:: i != p && (tf[i] || kp[i]) && tick[i] < tick[p] && (q == 0 || tick[i] > tick[q-1]) -> q = i+1
		:: else
		fi;
		i++
	:: else -> break
	od
}

/* the nearest grant before p's own whose ticket is there, into q; the number of live grants before that one, into u.
 * q is p+1 when p has no grant. */
inline granted_before(p)
{
	q = p+1; u = 0; i = 0;
	do
	:: i < NG -> if :: g[i] == p+1 -> break :: else -> i++ fi
	:: else -> break
	od;
	if
	:: i < NG -> q = 0;
		do
		:: i > 0 -> i--;
			if
			:: g[i] != 0 && LOCKED(g[i]-1) -> if :: q == 0 -> q = g[i] :: else -> u++ fi
			:: else
			fi
		:: else -> break
		od
	:: else
	fi
}

/* values that nobody reads any more go to 0, which keeps the state space small */
#define UNWATCH() wt[p] = 0; wo[p] = 0; xt[p] = 0; rk[p] = 0; tm[p] = 0
#define FORGET()  UNWATCH(); q = 0; o = 0; deaf = 0; deaft = 0; woken = 0

active proctype Kernel()	/* finishes closes */
{
end:	do
#ifdef HUPFIRST
	:: d_step { wc[1] -> wc[1] = 0; wl[1] = 0 }
	:: d_step { wc[2] -> wc[2] = 0; wl[2] = 0 }
	:: d_step { tc[0] -> tc[0] = 0; tl[0] = 0 }
	:: d_step { tc[1] -> tc[1] = 0; tl[1] = 0 }
#else
	:: d_step { wc[1] -> wc[1] = 0; wh[1] = 1 }
	:: d_step { wc[2] -> wc[2] = 0; wh[2] = 1 }
	:: d_step { tc[0] -> tc[0] = 0; th[0] = 1 }
	:: d_step { tc[1] -> tc[1] = 0; th[1] = 1 }
#if NP > 2
	:: d_step { wc[3] -> wc[3] = 0; wh[3] = 1 }
	:: d_step { tc[2] -> tc[2] = 0; th[2] = 1 }
#endif
#if NP > 3
	:: d_step { wc[4] -> wc[4] = 0; wh[4] = 1 }
	:: d_step { tc[3] -> tc[3] = 0; th[3] = 1 }
#endif
#endif
	od
}

proctype Cmd(byte p)		/* the command: ends when it likes, closes the witness some time later (a daemon: never) */
{
end:	running[p] == 1;
	running[p] = 0;
#ifdef DAEMON
end2:	false;
#endif
	d_step { cr[p] = 0; if :: !wr[p] -> CLOSE_W(p+1) :: else fi }
}

proctype W(byte p)		/* a wrapper */
{
	byte q, o; bit deaf, deaft, got, via, used, woken;
	{
	skip;
#if KEEP < NP
	if			/* --ticket: the last process comes back for the kept place */
	:: p == NP-1 ->
endb:		kp[KEEP];
		if :: skip :: goto out fi;
		LOCK(p+1);						/* [back.1] */
		if
		:: kp[KEEP] && !lp[KEEP] ->
#ifndef NOBACKWAKE
			d_step {	/* [back.2] wake the next live ticket behind: it has a timer only, and must watch us again */
				n = 0; i = 0;
				do
				:: i < NP -> if :: LOCKED(i) && tick[i] > tick[KEEP] && (n == 0 || tick[i] < tick[n-1]) -> n = i+1 :: else fi; i++
				:: else -> break
				od;
				if :: n != 0 -> mb[n-1] = 1 :: else fi };
#endif
			d_step { kp[KEEP] = 0; tick[p] = tick[KEEP]; ord[p] = tick[KEEP]; tf[p] = 1; tl[p] = 1 };	/* [back.3] a flocked FIFO under the old number */
			M = 0;
			goto try
		:: else -> M = 0
		fi
	:: else
	fi;
#endif
join:
#if KEEP < NP
	p == 0 || p == NP-1 || ord[p-1] != 0 || killed[p-1];
#else
	p == 0 || ord[p-1] != 0 || killed[p-1];	/* the processes are alike: let them join in this order */
#endif
	LOCK(p+1);							/* [join.1] */
	d_step { last++; tick[p] = last; tf[p] = 1; tl[p] = 1; th[p] = 0; tc[p] = 0; if :: ord[p] == 0 -> ord[p] = last :: else fi };	/* [join.2] the number; a flocked FIFO under a dot name; rename */
#ifdef STOPPED
	if :: p == STOP -> stopped[p] = 1 :: else fi;
#endif
	M = 0;								/* [join.3] */
try:
	atomic {
		M == 0 && !stopped[p] -> M = p+1;			/* [try.1] */
#ifdef GATEFIRST
		if :: sup && g[0] != p+1 && p != EXEMPT -> goto arm :: else fi;
#endif
#ifdef LOOKALL
		goto look
#else
		if :: sup -> goto look :: else fi
#endif
	};
#ifdef LOOKALL
gate:
#endif
#ifdef NOGATE
	goto pass;
#endif
scan:	/* unsupervised: the gate of tickets */
	atomic {
		nearest(p);
		if
		:: q == 0 -> goto pass
		:: q != 0 && kp[q-1] ->					/* [gate.1] a kept place blocks until its deadline */
			if
			:: lp[q-1] -> kp[q-1] = 0; goto scan
			:: else -> xt[p] = 1; goto blocked
			fi
		:: else -> deaft = th[q-1]				/* [gate.2] open it: one that has hung up already tells nothing any more */
		fi };
	atomic {
		if
		:: tl[q-1] ->						/* [gate.3] probe that descriptor: held: it is the one to poll */
#ifdef PROBEFIRST
			goto open
#endif
			wt[p] = (deaft -> 0 : q); goto blocked
		:: !tl[q-1] -> tf[q-1] = 0; goto scan			/* [gate.4] dead: unlink */
		fi };
#ifdef PROBEFIRST
open:	wt[p] = (th[q-1] -> 0 : q); goto blocked;
#endif
pass:
#ifdef LOOKALL
	goto looked;	/* got: the gate is passed */
#endif
look:
	atomic {
		o = L; deaf = LEASE(o) && wh[o];			/* [look.1] open the witness */
		if
		:: o == 0 ->
#ifdef SUP
			if :: seen -> seen = 0; rel = 1 :: else fi;	/* [look.2] the shell lock went silently: its time is now */
#endif
			goto looked
		:: o == F ->
#ifdef SUP
			seen = 1; rel = 0;				/* [look.3] mark it as seen */
#endif
			goto looked
		:: else
		fi };
	if
	:: wl[o] -> goto looked						/* [look.4] probe that descriptor: held: it may be polled */
	:: !wl[o]							/* dead: retire */
#ifdef NOM
		-> M = 0
#endif
	fi;
#ifndef NOINO
	if								/* [retire.1] still that inode? (under M it is) */
	:: L == o
#ifdef NOM
	:: L != o -> goto try
#else
	:: L != o -> goto look
#endif
	fi;
#endif
#if defined(SUP) && !defined(RELAFTER)
	rel = 1;							/* [retire.2] note `released`: before the rename */
#endif
#ifndef WAKEAFTER
	d_step { tell(p) };						/* [retire.3] wake: before the rename */
#endif
	L = 0;								/* [retire.4] rename away */
#ifdef WAKEAFTER
	d_step { tell(p) };
#endif
#ifdef NOM
	goto try;
#endif
	atomic { o = 0; deaf = 0; goto looked };
looked:
	atomic {
#ifdef LOOKALL
		if :: !sup && !got -> got = 1; goto gate :: else fi;
#endif
		if
		:: sup							/* the gate of grants: below */
		:: !sup && o == 0 -> goto take
		:: !sup && o == F -> rk[p] = 1; goto blocked		/* [wait.1] no witness: the re-check is all the news */
		:: !sup && LEASE(o) -> wo[p] = (deaf -> 0 : o); goto blocked	/* [wait.2] poll the witness */
		fi };
#ifdef SUP
	atomic {
		if
		:: moved -> tell_places(p); moved = 0			/* [gate.5] grants ran out, the queue moved up: wake by the new one */
		:: else
		fi;
		if
		:: o == 0 && (g[0] == p+1 || p == EXEMPT) -> goto take	/* [gate.6] */
		:: else
		fi };
arm:	/* supervised: whom to watch */
#ifdef PLACES
	atomic {
#ifndef SENTINELONLY
		if :: g[0] == p+1 || g[1] == p+1 || p == EXEMPT -> goto watch :: else fi;
#endif
		nearest(p);		/* the first live ticket in line watches the witness, too */
#ifdef RECHECK
		rk[p] = (q == 0 || g[2] == p+1);
#endif
		if :: q == 0 -> goto watch :: else -> deaft = th[q-1] fi };
	atomic {
		if
		:: tl[q-1] -> wt[p] = (deaft -> 0 : q); goto blocked
		:: !tl[q-1] -> tf[q-1] = 0; goto arm
		fi };
#else
	atomic {
		if :: p == EXEMPT -> goto watch :: else fi;		/* [wait.3] needs no grant */
		granted_before(p);
		if
		:: q == p+1 -> goto blocked				/* [wait.4] no grant: the mailbox tells of one */
		:: q != p+1 && u == 0 -> goto watch			/* [wait.5] one of the first two live grants */
		:: else -> deaft = th[q-1]				/* [wait.6] later: poll the ticket of the live grant before; open it, */
		fi };
	atomic {
		if
		:: tl[q-1] -> wt[p] = (deaft -> 0 : q); goto blocked	/* probe that descriptor: held */
		:: !tl[q-1] -> goto arm
		fi };
#endif
watch:
	atomic {
		if
		:: o == 0 -> xt[p] = (g[0] != 0)			/* [wait.7] free, and another's turn: a timer at the expiry of the first grant */
		:: o == F -> rk[p] = 1					/* [wait.1] */
		:: LEASE(o) -> wo[p] = (deaf -> 0 : o)			/* [wait.2] */
		fi;
		goto blocked };
#endif
take:
#ifdef SUP
	assert(!(sup && !rel));		/* the first grantee at a free resource: its time began when the resource became free */
#endif
#ifdef UNLINKFIRST
	tf[p] = 0;
	d_step { CLOSE_T(p) };
	!tc[p];
#endif
	atomic {
		wr[p] = 1; wl[p+1] = 1;					/* [claim.1] staging: record, flocked witness */
		if							/* [claim.2] rename, NOREPLACE */
		:: VACANT -> L = p+1; got = 1; claims++;
#ifndef NOGATE
			i = 0;
			do
			:: i < NP ->
				assert(sup || i == p || !((LIVE(i) && ord[i] < ord[p]) || (kp[i] && !lp[i] && tick[i] < tick[p])));	/* P3 */
				i++
			:: else -> break
			od;
#endif
			via = sup && g[0] == p+1; claimed[p] = 1; FORGET()
		:: else -> got = 0; wr[p] = 0; wl[p+1] = 0
		fi };
	if
	:: got -> got = 0
	:: !got ->							/* [claim.3] EEXIST: the shell lock was faster */
#ifdef UNLINKFIRST
		M = 0; goto join;
#endif
#ifdef SUP
		d_step { seen = 1; rel = 0 };
#endif
		rk[p] = 1; goto blocked
	fi;
#ifdef SUP
	if
	:: via ->
#if !defined(NOCLAIMWAKE) && !defined(CLAIMWAKELATE)
		d_step { SHIFT(); tell_places(p); g[2] = g[1]; g[1] = g[0]; g[0] = p+1 };	/* [claim.4] wake by the queue as it will be */
#endif
		if
		:: d_step { assert(!used); used = 1; SHIFT(); rel = 0 }	/* [claim.5] S without the grant */
#ifdef WRITEFAIL
		:: d_step { L = 0; gone[p] = 1; via = 0 }; M = 0; goto out	/* that write failed: give back */
#endif
		fi;
#ifdef CLAIMWAKELATE
		d_step { tell_places(p) };
#endif
	:: !via -> rel = 0
	fi;
#endif
#ifndef UNLINKFIRST
	tf[p] = 0;							/* [claim.6] unlink the ticket's name; the FIFO stays open */
#endif
	M = 0;								/* [claim.7] */
#ifdef NOCLH
	d_step { CLOSE_T(p) };
#endif
	if
	:: fb[p] -> goto release					/* [start.1] a force byte: don't start */
	:: !fb[p]
	fi;
	d_step {							/* [start.2] fork */
		i = 0;
		do
		:: i < NP -> assert(forced[p+1] || i == p || !running[i] || forced[i+1]); i++	/* P1 */
		:: else -> break
		od;
		assert(forced[p+1] || !fcs || forced[F]);		/* P1, the shell lock */
		assert(!forced[p+1] || fb[p]);				/* the owner hears of a force */
		assert(via == used);					/* P5 */
		running[p] = 1; cr[p] = 1 };
	!running[p];
release:
#ifdef CLOSEFIRST
	atomic { if :: wr[p] -> DROP_WRAPPER(p) :: else fi };
#endif
	LOCK(p+1);							/* [release.1] */
	if								/* [release.2] still our inode? */
	:: L == p+1 -> got = 1
#ifdef NOINO
	:: L != p+1 && L != 0 -> got = 1
#else
#ifdef CLOSEFIRST
	:: L != p+1 && LEASE(L) -> got = 1	/* the inode number may have come again: ext4 does it 197 times of 200 */
#endif
#endif
	:: L != p+1 -> got = 0
	fi;
	if
	:: got ->
#ifdef SUP
#ifndef RELAFTER
		rel = 1;						/* [release.3] note `released` */
#endif
#endif
#if !defined(WAKEAFTER) && !defined(NOWAKE)
		d_step { tell(p) };					/* [release.4] wake */
#endif
		L = 0;							/* [release.5] rename away */
#ifdef WAKEAFTER
		d_step { tell(p) };
#endif
#if defined(SUP) && defined(RELAFTER)
		rel = 1;
#endif
	:: else
	fi;
	d_step { M = 0; got = 0 };					/* [release.6] */
	d_step { if :: tl[p] && !tc[p] -> CLOSE_T(p) :: else fi };	/* [release.7] close the ticket */
	if :: wr[p] -> DROP_WRAPPER(p) :: else fi;			/* [release.8] close the witness */
	goto out;
blocked:
	atomic { M = 0; q = 0; o = 0; deaf = 0; deaft = 0; got = 0 };		/* [wait.8] */
#ifdef COUNT
	assert(!woken);		/* woken, and yet it wasn't its turn */
#endif
	if
	:: atomic { !stopped[p] && NEWS(p) -> UNWATCH(); mb[p] = 0 };	/* [wait.9] poll(2); read the mailbox, close the rest, before the try */
#ifdef COUNT
		woken = 1;
#endif
		goto try
#if KEEP < NP
	:: p == KEEP && !sup ->						/* the wait runs out */
		LOCK(p+1);						/* [keep.1] */
		d_step { tf[p] = 0; kp[p] = 1; gone[p] = 1; FORGET() };	/* [keep.2] a kept place, renamed over the ticket's name */
		M = 0;							/* [keep.3] then the FIFO is closed: those behind hear that */
		goto out
#endif
	fi;
out:
	skip
	} unless { killed[p] };
	d_step { FORGET(); got = 0; mb[p] = 0;
		assert(!(via && !used && sup) || g[0] == p+1);	/* P5: no write of S, so the grant still stands */
		via = 0; used = 0 };
	/* exit or SIGKILL: the kernel closes what is open, in any order */
	do
	:: M == p+1 -> M = 0
#ifdef LEAK
	:: tl[p] && !claimed[p] && !tc[p] -> d_step { CLOSE_T(p) }	/* somebody else has the claimer's ticket open, too */
#else
	:: tl[p] && !tc[p] -> d_step { CLOSE_T(p) }
#endif
	:: wr[p] -> DROP_WRAPPER(p)
	:: else -> break
	od;
	skip;
	d_step {	/* all ends are alike from here on, for a small state space */
		fin[p] = 1; claimed[p] = 1; killed[p] = 0; gone[p] = 0; stopped[p] = 0; ord[p] = NP+1; fb[p] = 0;
		if :: !tf[p] && !kp[p] -> tick[p] = 0 :: else fi }
}

proctype Foreign()		/* the shell lock: mkdir, write holder.json, work, rm -rf */
{
	byte r;
end:	do
	:: r < FR ->
		d_step { L == 0 -> L = F; Fempty = 1; forced[F] = 0 };
		d_step { Fempty = 0 };
		if :: L == 0 -> goto next :: else fi;	/* forced away: its write fails, it gives up */
		d_step {
			i = 0;
			do
			:: i < NP -> assert(forced[F] || !running[i] || forced[i+1]); i++	/* P1 */
			:: else -> break
			od;
			fcs = 1 };
		fcs = 0;
		L = 0;
next:		r++
	:: r == FR -> break
	od
}

#ifdef FORCE
active proctype Forcer()	/* it may be killed between any two steps */
{
	LOCK(10);							/* [force.1] */
	if
	:: L == 0
	:: L != 0 ->
#ifdef SUP
		rel = 1;						/* [force.2] note `released` */
#endif
		if :: skip :: goto die fi;
#ifndef NOBYTE
		d_step { if :: LEASE(L) -> fb[L-1] = 1 :: else fi };	/* [force.3] a byte into the witness */
		if :: skip :: goto die fi;
#endif
		d_step { tell(NP) };					/* [force.4] wake */
		if :: skip :: goto die fi;
		d_step { if :: L == F || wl[L] -> forced[L] = 1 :: else fi; L = 0 }	/* [force.5] rename away */
	fi;
die:	M = 0
}
#endif

#if STOP < NP && !defined(STOPPED)
active proctype Stopper()
{
	if
	:: d_step { READY && LIVE(STOP) && M != STOP+1 -> stopped[STOP] = 1 }
	:: skip
	fi
}
#endif

#ifdef SUP
#ifdef SUPCRASH
#define MAYDIE1(what) if :: skip :: t == 0 -> t = 1; what fi
#else
#define MAYDIE1(what) skip
#endif
inline tell_all() { i = 0; do :: i < NP -> if :: LOCKED(i) -> mb[i] = 1 :: else fi; i++ :: else -> break od }
active proctype Supervisor()	/* its commands may be killed between any two steps; what wasn't done is then done again */
{
	byte a, c, t;
#ifdef EARLY
	d_step {
		M == 0 && last == 0 -> sup = 1;
	};
	READY;
	goto grant;
#endif
start:	LOCK(11);
#ifndef SUPWAKELATE
	d_step { tell_all() };						/* [sup.1] wake everybody who waits */
	MAYDIE1(M = 0; goto start);
#endif
	d_step { sup = 1; moved = 0 };					/* [sup.2] S with the supervisor */
#ifdef SUPWAKELATE
	MAYDIE1(M = 0; goto grant);
	d_step { tell_all() };
#endif
	M = 0;
grant:	do
	:: c == NG -> break
	:: c < NG ->
#ifdef GIVE
		a = (c == 0 -> GIVE / 100 : (c == 1 -> (GIVE / 10) % 10 : GIVE % 10));
#else
		if
		:: g[0] != 1 && g[1] != 1 && g[2] != 1 -> a = 1
		:: g[0] != 2 && g[1] != 2 && g[2] != 2 -> a = 2
#if NP > 2
		:: g[0] != 3 && g[1] != 3 && g[2] != 3 -> a = 3
#endif
#if NP > 3
		:: g[0] != 4 && g[1] != 4 && g[2] != 4 -> a = 4
#endif
		fi;
#endif
		LOCK(11);
		if
		:: g[0] == a || g[1] == a || g[2] == a || claimed[a-1]
		:: else ->
#ifndef SUPWAKELATE
			d_step {					/* [grant.1] wake by the queue as it will be; and whom it is for */
				n = (g[0] == 0 -> 0 : (g[1] == 0 -> 1 : 2)); g[n] = a; tell_places(NP);
#if !defined(PLACES) || defined(RECHECK)
				if :: LOCKED(a-1) -> mb[a-1] = 1 :: else fi;
#endif
				g[n] = 0 };
			MAYDIE1(M = 0; goto grant);
#endif
			d_step { n = (g[0] == 0 -> 0 : (g[1] == 0 -> 1 : 2)); g[n] = a };	/* [grant.2] S with the grant */
#ifdef SUPWAKELATE
			MAYDIE1(goto unwoken);
			d_step { tell_places(NP); if :: LOCKED(a-1) -> mb[a-1] = 1 :: else fi };
unwoken:		skip
#endif
		fi;
		M = 0; a = 0;
		c++
	od;
#ifdef REVOKE
	if
	:: LOCK(11);
		if
		:: g[0] != 0 -> a = 0
		:: g[1] != 0 -> a = 1
		:: g[2] != 0 -> a = 2
		:: g[0] == 0 -> goto revoked
		fi;
		d_step {						/* [revoke.1] wake by the queue as it will be, whose grant it was, and the one behind */
			n = g[a];
			if :: LOCKED(n-1) -> mb[n-1] = 1 :: else fi;
#ifndef NOREVOKEWAKE
#ifndef PLACES
			k = a+1;
			do
			:: k < 3 && g[k] != 0 && !LOCKED(g[k]-1) -> k++
			:: else -> break
			od;
			if :: k < 3 && g[k] != 0 -> mb[g[k]-1] = 1 :: else fi;
#endif
#endif
			tell_places(NP) };
		MAYDIE1(goto revoked);
		d_step { if :: a == 0 -> SHIFT() :: a == 1 -> g[1] = g[2]; g[2] = 0 :: a == 2 -> g[2] = 0 fi };	/* [revoke.2] S without it */
revoked:	a = 0; M = 0
	:: skip
	fi;
#endif
#ifndef NOSTOP
	if
	:: skip
	:: LOCK(11);
#ifndef SUPWAKELATE
		d_step { tell_all() };					/* [sup.3] wake everybody who waits */
		MAYDIE1(goto halt);
#endif
		d_step { sup = 0; g[0] = 0; g[1] = 0; g[2] = 0; moved = 0 };	/* [sup.4] S without supervisor and grants */
halt:		M = 0
	fi;
#endif
	skip
}

active proctype Clock()		/* grants run out, in order, while the resource is free; who should claim and can does so in time */
{
end:	do
	:: atomic { READY && M == 0 && sup && L == 0 && g[0] != 0 && !ABLE(g[0]-1) ->
		SHIFT();
#ifdef TOGETHER
		if :: skip :: g[0] != 0 -> SHIFT() fi;	/* given before the release, too: its time ends with the first one's */
#endif
		d_step { a_timer(); moved = 1 } }
	od
}
#endif
#if KEEP < NP
active proctype Deadline()
{
end:	d_step { kp[KEEP] -> lp[KEEP] = 1; a_timer() }
}
#endif

#if CRASH > 0
#define MAYDIE(p) (READY && !fin[p] && !killed[p] && ((KILL >> p) & 1))
active proctype Crasher()
{
	byte c;
	do
	:: d_step { c < CRASH && MAYDIE(0) -> c++; killed[0] = 1 }
	:: d_step { c < CRASH && MAYDIE(1) -> c++; killed[1] = 1 }
#if NP > 2
	:: d_step { c < CRASH && MAYDIE(2) -> c++; killed[2] = 1 }
#endif
#if NP > 3
	:: d_step { c < CRASH && MAYDIE(3) -> c++; killed[3] = 1 }
#endif
	:: break
	od
}
#endif

#define GRANTED(p) (p == EXEMPT || g[0] == p+1 || g[1] == p+1 || g[2] == p+1)
active proctype Monitor()	/* nothing can move any more: who sleeps, and may he? */
{
	byte idle, was, done; bit stop;
	do
	:: timeout ->
		d_step {
			n = 0; u = 0; i = 0;	/* n: somebody may hope to claim; u: a timer stands */
			do
			:: i < NP ->
				k = 0; was = 0;		/* k: others come first; was: one of them is stopped */
				do
				:: k < NP ->
					if
					:: k != i && LIVE(k) && ord[k] < ord[i] -> was = was | 1 | (stopped[k] -> 2 : 0)
					:: k != i && kp[k] && !lp[k] && tick[k] < tick[i] -> was = was | 1
					:: else
					fi;
					k++
				:: else -> break
				od;
				/* P4: free or dead, entitled, and asleep; only what nobody announces, the shell lock's end, may be found by re-check */
				assert(!((L == 0 || DEAD(L)) && ABLE(i) && !rk[i] && (sup -> (g[0] == i+1 || i == EXEMPT) : was == 0)));
				if :: ABLE(i) && (sup -> GRANTED(i) : !(was & 2)) -> n = 1 :: else fi;
				if :: ABLE(i) && (xt[i] || rk[i]) -> tm[i] = 1; u = 1 :: else fi;
				i++
			:: else -> break
			od;
			was = 0;
			if
			:: n == 0 || (LEASE(L) && wl[L]) -> stop = 1	/* nobody; or a daemon keeps a crashed run's lease */
			:: else ->
				assert(u);		/* P2: nobody has a timer: stuck */
				if :: claims == done -> idle++ :: else -> idle = 0; done = claims fi;
				assert(idle < 4)	/* P2: time doesn't help: stuck */
			fi };
		if :: stop -> break :: else fi
	od
}

init
{
	atomic {
		run W(0); run Cmd(0);
		run W(1); run Cmd(1);
#if NP > 2
		run W(2); run Cmd(2);
#endif
#if NP > 3
		run W(3); run Cmd(3);
#endif
#if FR > 0
		run Foreign();
#endif
	}
}
