/* multi.pml: a run that needs several resources. Who waits is modelled by level (it moves when it can): lost wake-ups are
 * lease.pml's business; here the question is deadlock, order and partial claims. Nothing here depends on how a waiter learns.
 *
 *   ALL       tickets in all lines under one M, claim all or none under one M (the design)
 *   SEP       the same, but the tickets are registered line by line, each under its own M, in any order
 *   SORTED    one after another in ascending order, holding what one has     UNSORTED  ... in any order
 *   GRANTS    supervised, grants per resource in any order (ALL otherwise)   ONELIST   ... all resources of a run granted in one write
 *   CRASH=n   SIGKILLs;  FR=n  rounds of a shell lock on resource 2, the last of a claim
 *   MIDTAKE   a partly done claim that meets EEXIST keeps what it has (wrong); otherwise it renames it away again
 */
#define NP 3
#define NR 3
#ifndef CRASH
#define CRASH 1
#endif
#ifndef FR
#define FR 1
#endif
#define FOREIGN 9
byte M, cnt;
byte L[NR];			/* 0 free, p+1 a run's, FOREIGN */
byte need[NP];			/* bit mask of resources */
byte tk[9];			/* tk[r*NP+p]: the ticket number of p in line r, 0 none */
byte gr[9];			/* gr[r*3+i]: i-th grantee of r (p+1) */
bit killed[NP], dead[NP], done[NP];	/* dead: the command tree is gone too */
#define LOCK(w) atomic { M == 0 -> M = w }
#define NEEDS(p,r) ((need[p] >> (r)) & 1)
#define T(r,p) tk[(r)*NP+(p)]
#define AHEAD(p,q,r) (q != p && T(r,q) != 0 && T(r,q) < T(r,p) && !dead[q])
#ifdef GRANTS
#define HEAD(p,r) (gr[(r)*3] == p+1 || (gr[(r)*3] != 0 && dead[gr[(r)*3]-1] && (gr[(r)*3+1] == p+1 || (dead[gr[(r)*3+1]-1] && gr[(r)*3+2] == p+1))))
#else
#define HEAD(p,r) !(AHEAD(p,0,r) || AHEAD(p,1,r) || AHEAD(p,2,r))
#endif
#define FREE(r) (L[r] == 0 || (L[r] != FOREIGN && dead[L[r]-1]))
#define CAN(p,r) (!NEEDS(p,r) || (HEAD(p,r) && FREE(r)))

#define TAKE(p,r) d_step { if :: ok && NEEDS(p,r) && L[r] != p+1 -> if :: FREE(r) -> L[r] = p+1 :: else -> ok = 0 fi :: else fi }
#define GIVE(p,r) d_step { if :: L[r] == p+1 -> L[r] = 0 :: else fi }

proctype W(byte p)
{
	byte r, left; bit ok;
	{
	skip;
#if defined(SORTED) || defined(UNSORTED)
	left = need[p];
	do
	:: left == 0 -> break
	:: left != 0 ->
		if
		:: left & 1 -> r = 0
#ifdef SORTED
		:: !(left & 1) && (left & 2) -> r = 1
		:: !(left & 3) -> r = 2
#else
		:: left & 2 -> r = 1
		:: left & 4 -> r = 2
#endif
		fi;
		d_step { M == 0 -> cnt++; T(r,p) = cnt };	/* one M section: nobody sees inside */
one:		atomic { HEAD(p,r) && FREE(r) && M == 0 -> M = p+1 };
		if
		:: d_step { HEAD(p,r) && FREE(r) -> L[r] = p+1; T(r,p) = 0 }; M = 0; left = left & (255 - (1 << r)); r = 0
		:: else -> M = 0; goto one
		fi
	od;
	r = 0;
#else
#ifdef SEP
	left = need[p];
	do
	:: left == 0 -> break
	:: left & 1 -> d_step { M == 0 -> cnt++; T(0,p) = cnt; left = left & 254 }
	:: left & 2 -> d_step { M == 0 -> cnt++; T(1,p) = cnt; left = left & 253 }
	:: left & 4 -> d_step { M == 0 -> cnt++; T(2,p) = cnt; left = left & 251 }
	od;
#else
	d_step { M == 0 -> cnt++; r = 0; do :: r < 3 -> if :: NEEDS(p,r) -> T(r,p) = cnt :: else fi; r++ :: else -> break od; r = 0 };
#ifdef GRANTS
#ifdef ONELIST
	LOCK(p+1);
	r = 0; do :: r < 3 -> if :: NEEDS(p,r) -> if :: gr[r*3] == 0 -> gr[r*3] = p+1 :: gr[r*3] != 0 && gr[r*3+1] == 0 -> gr[r*3+1] = p+1 :: else -> gr[r*3+2] = p+1 fi :: else fi; r++ :: else -> break od; r = 0;
	M = 0;
#else
	for (r : 0 .. 2) { if :: NEEDS(p,r) -> LOCK(p+1); if :: gr[r*3] == 0 -> gr[r*3] = p+1 :: gr[r*3] != 0 && gr[r*3+1] == 0 -> gr[r*3+1] = p+1 :: else -> gr[r*3+2] = p+1 fi; M = 0 :: else fi }; r = 0;
#endif
#endif
#endif
try:	atomic {	CAN(p,0) && CAN(p,1) && CAN(p,2) && M == 0 -> M = p+1 };
	ok = 1;
	TAKE(p,0); TAKE(p,1); TAKE(p,2);	/* rename by rename: the shell lock and SIGKILL may come between */
#ifndef MIDTAKE
	if
	:: !ok ->	/* EEXIST: give back what the claim had got */
		GIVE(p,0); GIVE(p,1); GIVE(p,2);
		M = 0; goto try
	:: else
	fi;
#else
	if :: !ok -> M = 0; goto try :: else fi;
#endif
	d_step { T(0,p) = 0; T(1,p) = 0; T(2,p) = 0;
#ifdef GRANTS
		r = 0; do :: r < 3 -> if :: gr[r*3] == p+1 -> gr[r*3] = gr[r*3+1]; gr[r*3+1] = gr[r*3+2]; gr[r*3+2] = 0
			:: gr[r*3] != p+1 && gr[r*3+1] == p+1 -> gr[r*3] = gr[r*3+1]; gr[r*3] = gr[r*3+2]; gr[r*3+1] = 0; gr[r*3+2] = 0
			:: else fi; r++ :: else -> break od;
#endif
		r = 0 };
	M = 0;
#endif
	d_step {	/* the run: it has all it needs, and nobody else has any of it */
		assert(!NEEDS(p,0) || L[0] == p+1); assert(!NEEDS(p,1) || L[1] == p+1); assert(!NEEDS(p,2) || L[2] == p+1);
		skip };
	LOCK(p+1);
	GIVE(p,0); GIVE(p,1); GIVE(p,2);
	d_step { M = 0; done[p] = 1; need[p] = 0 }
	} unless { killed[p] };
	d_step { if :: M == p+1 -> M = 0 :: else fi; r = 0; left = 0; ok = 0 };
	d_step { if :: !done[p] -> dead[p] = 1 :: else fi }
}

proctype Shell() { byte n;
end:	do :: n < FR -> d_step { L[2] == 0 -> L[2] = FOREIGN }; L[2] = 0; n++ :: break od }
active proctype Crasher()
{
	byte n;
	do
	:: n < CRASH && !killed[0] -> n++; killed[0] = 1
	:: n < CRASH && !killed[1] -> n++; killed[1] = 1
	:: n < CRASH && !killed[2] -> n++; killed[2] = 1
	:: break
	od
}
active proctype Monitor() { timeout -> assert((done[0] || killed[0]) && (done[1] || killed[1]) && (done[2] || killed[2])) }
#define PICK(p,from) if :: from <= 1 -> need[p] = 1 :: from <= 2 -> need[p] = 2 :: from <= 3 -> need[p] = 3 :: from <= 4 -> need[p] = 4 :: from <= 5 -> need[p] = 5 :: from <= 6 -> need[p] = 6 :: need[p] = 7 fi
init {	/* any needs; in ascending order, because the processes are alike */
	atomic { PICK(0,1); PICK(1,need[0]); PICK(2,need[1]); run W(0); run W(1); run W(2); run Shell() }
}
