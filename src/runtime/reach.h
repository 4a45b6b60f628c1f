/* src/runtime/reach.h - how a process reaches the members of a cluster (net/cluster.h): which of
 * them it is, their addresses, the frames of an election, and where its files are. For members and
 * for guests. */
#ifndef CV_RUNTIME_REACH_H
#define CV_RUNTIME_REACH_H

#include "net/cluster.h"
#include "net/peers.h"

/* Which member this process is: the one of that name; NULL: the one whose address this host has.
 * CV_OK or CV_E_INVALID. */
CV_NODISCARD int cv__reach_self(const struct cv_cluster *cluster, const char *name, cv_id *ret_self,
                                struct cv_errtext *reterr);

/* The addresses of all members, in the address family of `self`. Asks the resolver. */
CV_NODISCARD int cv__reach_addresses(const struct cv_cluster *cluster, cv_id self,
                                     struct cv_udp_address ret_address[],
                                     struct cv_errtext *reterr);

/* What must be the same in the files of all members. */
struct cv_peers_same cv__reach_same(const struct cv_cluster *cluster);

/* How the file of a member differs from ours, which `our_name` names: "member 'b' has other options
 * than this one, in the same generation 1". */
const char *cv__reach_difference(const char *member, const struct cv_peers_same *theirs,
                                 const char *our_name, const struct cv_peers_same *ours,
                                 char ret_line[CV_ERRTEXT_BYTES]);

/* The frames of an election of this cluster; reads its keys. The caller sets self, addresses and
 * functions of the setting; the rest is filled in. */
CV_NODISCARD int cv__reach_frames(const struct cv_cluster *cluster, const char *election,
                                  const struct cv_peers_setting *setting,
                                  struct cv_peers **ret_peers, struct cv_errtext *reterr);

/* CV_E_STORE: the state folder does not exist, or this user may not write to it. */
CV_NODISCARD int cv__reach_folder(const struct cv_cluster *cluster, struct cv_errtext *reterr);

/* A file of one election in the state folder: CLUSTER.MEMBER@ELECTION.SUFFIX, with room for `spare`
 * bytes after it. Bytes that do not belong in file names are written as %XX; a long name is
 * replaced by its hash. CV_OK or CV_E_INVALID. */
CV_NODISCARD int cv__reach_file(const struct cv_cluster *cluster, const char *member,
                                const char *election, const char *suffix, size_t spare,
                                char ret_path[PATH_MAX], struct cv_errtext *reterr);
/* The name that earlier versions used: CLUSTER.MEMBER.SUFFIX, for only one election. */
CV_NODISCARD int cv__reach_old_file(const struct cv_cluster *cluster, const char *member,
                                    const char *suffix, size_t spare, char ret_path[PATH_MAX],
                                    struct cv_errtext *reterr);

#endif
