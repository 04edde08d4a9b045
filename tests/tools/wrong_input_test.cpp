// Wrong input: each mistake ends the program with 2, names its argument, and prints no result.
#include "tests/tools/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace sidelatch::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WrongInput : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(WrongInput, ExitsWith2AndNamesTheArgument) {
  const Outcome outcome = run(GetParam().first);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().second));
  EXPECT_THAT(outcome.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Program, WrongInput,
    ::testing::Values(
        std::pair{"", "give a command: the commands are check"},
        std::pair{"p4", "give a command of p4: the commands are check, test"},
        std::pair{"p4 chek x", "there is no command chek of p4: the commands are check, test"},
        std::pair{"softnic rum -- true", "there is no command rum of softnic: the commands are run"},
        std::pair{"p4 --fit tofino check x", "--fit: options follow a command of p4; the commands are check, test"},
        std::pair{"--bogus check", "--bogus: options follow a command"},
        std::pair{"check --tolerance 0.2", "--against"}, std::pair{"check --fabric sim --order relaxed", "--order"},
        std::pair{"check --torn-bias 0.1", "--torn-bias"}, std::pair{"check --wire shm:x", "--wire"},
        std::pair{"check --profile /dev/zero", "/dev/zero: it has more than"},
        std::pair{"litmus /dev/zero", "/dev/zero: it has more than"}, std::pair{"p4 check /no/such.p4", "No such file"},
        std::pair{"p4 check /tmp", "it is a folder"}, std::pair{"p4 check p4/l2_l3.p4 -I /no/folder", "-I /no/folder"},
        std::pair{"p4 check p4/l2_l3.p4 -D =3", "-D =3"}, std::pair{"p4 check p4/l2_l3.p4 -D 1X", "-D 1X"},
        std::pair{"chekc", "chekc"}, std::pair{"check --sizes 100", "100"}, std::pair{"check --sizes -64", "-64"},
        std::pair{"check --sizes 64,x", "x"}, std::pair{"check --seconds 0", "--seconds 0"},
        std::pair{"check --fabric tcp", "--fabric tcp"}, std::pair{"check --profile nosuch", "nosuch"},
        std::pair{"check --reads 0", "--reads 0"}, std::pair{"check --profile /no/file.toml", "/no/file.toml"},
        std::pair{"check --out /proc/none", "/proc/none"},
        std::pair{"check --parts speed", "--parts speed: the parts are"},
        std::pair{"check --against /no/such.json", "/no/such.json"},
        std::pair{"check --against /no/such.json --tolerance 2", "--tolerance 2"},
        std::pair{"check --profile /tmp", "/tmp, which is a folder"}, std::pair{"check --sizes 64,,128", "64,,128"},
        std::pair{"check --sizes 64,", "--sizes"}, std::pair{"check --parts torn-reads,", "--parts"},
        std::pair{"check --seed 99999999999999999999", "--seed: 99999999999999999999"},
        std::pair{"bench atomics-stride --milliseconds 5", "--connect"},
        std::pair{"check --emit-profile /no/dir/p.toml", "/no/dir/p.toml"}, std::pair{"check --bogus", "--bogus"},
        std::pair{"bench", "an experiment"}, std::pair{"bench nosuch", "nosuch"},
        std::pair{"bench latch-scaling --fabric tcp", "--fabric tcp"},
        std::pair{"bench latch-scaling --fabric verbs", "--connect"},
        // What would be ignored is refused.
        std::pair{"check --fabric sim --token x", "--token: it is for --server"},
        std::pair{"bench latch-ablation --token x", "--device and --token are for"},
        std::pair{"bench latch-ablation --device mlx5_0", "--device and --token are for"},
        std::pair{"bench list --strict", "--strict: `bench list` runs nothing"},
        std::pair{"bench list --out /tmp", "--out: `bench list` runs nothing"},
        std::pair{"bench list --practice bogus", "--practice bogus"},
        std::pair{"bench list --practice paper", "--practice: `bench list` runs nothing"},
        std::pair{"bench list --longest-wait-us 5", "--longest-wait-us: `bench list` runs nothing"},
        std::pair{"bench list --profile connectx7", "--profile: `bench list` runs nothing"},
        std::pair{"bench list --seed 7", "--seed: `bench list` runs nothing"},
        std::pair{"bench list --fabric sim", "--fabric: `bench list` runs nothing"},
        std::pair{"bench latch-scaling --server", "latch-scaling: --server lends memory and runs nothing"},
        std::pair{"bench --server --strict", "--strict: --server lends memory and runs nothing"},
        std::pair{"bench --server --fabric tcp", "--fabric tcp"},
        std::pair{"bench --server --fabric sim", "--fabric sim"},
        std::pair{"bench targets --only atomics-stride --practice advised", "--practice: bench atomics-stride"},
        std::pair{"bench targets --only latch-scaling --longest-wait-us 5", "--longest-wait-us: it is for the stores"},
        std::pair{"bench atomics-stride --practice advised", "--practice: bench atomics-stride"},
        std::pair{"bench switch-optimistic --practice paper", "--practice: bench switch-optimistic"},
        std::pair{"bench latch-scaling --longest-wait-us 5", "--longest-wait-us: it is for the stores"},
        std::pair{"check --connect localhost --at-switch --parts effects,rates",
                  "--parts effects,rates: with --at-switch there are only torn-reads and schemes"},
        // What is wrong, in words of the command line.
        std::pair{"check --seconds abc", "--seconds: abc: it must be a number"},
        std::pair{"check --seconds ' 1'", "--seconds:  1: it must be a number"},
        std::pair{"check --seconds 0x10", "--seconds: 0x10: it must be a number"},
        std::pair{"check --seconds 1 --seconds 2", "--seconds: give it once, with one value; 2 were given"},
        std::pair{"check --seed", "--seed: its value is missing"}));

// Refused before anything is connected.
INSTANTIATE_TEST_SUITE_P(
    Remote, WrongInput,
    ::testing::Values(
        std::pair{"check --server --connect localhost", "--connect"},
        std::pair{"check --fabric sim --connect localhost", "--connect"},
        std::pair{"check --fabric sim --device mlx5_0", "--device"},
        std::pair{"check --profile connectx7 --connect localhost", "--profile"},
        std::pair{"check --profile connectx7 --device mlx5_0", "--device"},
        std::pair{"check --profile connectx7 --fabric softnic", "--profile is of the simulator"},
        std::pair{"bench latch-scaling --profile connectx7 --connect localhost", "--profile"},
        std::pair{"check --server --parts rates", "--parts"}, std::pair{"check --server --seconds 5", "--seconds"},
        std::pair{"check --server --sizes 64", "--sizes"}, std::pair{"check --server --reads 5", "--reads"},
        std::pair{"check --server --at-switch", "--at-switch"},
        std::pair{"check --server --fabric tcp", "--fabric tcp: it must be"},
        std::pair{"check --server --share objects", "--share objects: it is NAME=MIB"},
        std::pair{"check --lend 1", "--server"}, std::pair{"check --server --lend 0", "--lend 0"},
        std::pair{"check --server --lend -1", "-1"}, std::pair{"bench nosuch --connect localhost", "nosuch"},
        std::pair{"bench smartnic-latch --connect localhost", "simulator only"},
        std::pair{"bench targets --only smartnic-latch --connect localhost", "simulator only"},
        std::pair{"bench latch-scaling --fabric sim --connect localhost", "--connect"},
        std::pair{"bench latch-scaling --rank 1", "--connect"},
        std::pair{"bench latch-scaling --connect localhost --rank 1", "--ranks"},
        std::pair{"bench latch-scaling --connect localhost --rank 2 --ranks 2", "--rank 2"},
        std::pair{"bench latch-scaling --connect localhost --rank 0 --ranks 257", "--ranks 257"},
        std::pair{"bench latch-scaling --connect localhost --run ''", "--run"},
        std::pair{"bench latch-scaling --connect localhost --milliseconds 0", "--milliseconds 0"}));

// In the words of the command line, not in those of the variables that carry the settings.
INSTANTIATE_TEST_SUITE_P(
    SoftNic, WrongInput,
    ::testing::Values(std::pair{"softnic run --order foo -- true", "--order foo: "},
                      std::pair{"softnic run --torn-bias 2 --order relaxed -- true", "--torn-bias is \"2\""},
                      std::pair{"softnic run --torn-bias 0.5 -- true", "--torn-bias needs --order"},
                      std::pair{"softnic run --seed 2 -- true", "--seed requires --order"},
                      std::pair{"softnic run --atomics all -- true", "--atomics is \"all\""},
                      std::pair{"softnic run --atomics glob --order spec -- true", "--atomics glob: with --order spec"},
                      std::pair{"softnic run --loss nan -- true", "--loss is \"nan\""},
                      std::pair{"softnic run --delay -1 -- true", "--delay is \"-1\""},
                      std::pair{"softnic run --seed 99999999999999999999 -- true", "--seed: 99999999999999999999"},
                      std::pair{"softnic run --fault-seed 18446744073709551616 -- true", "--fault-seed"},
                      std::pair{"softnic run --wire foo -- true", "\"foo\""},
                      std::pair{"softnic run --wire shm:a/b -- true", "\"shm:a/b\": 'a/b' is no name of a wire"},
                      std::pair{"softnic run --wire switch:../x,10.0.0.1 -- true", "'../x' is no name of a wire"},
                      std::pair{"softnic run --wire link:lx,lx,10.0.0.1 -- true", "'lx' and 'lx' are one socket"},
                      std::pair{"switch p4/l2_l3.p4 --port 1=link:lx,lx", "'lx' and 'lx' are one socket"},
                      std::pair{"switch p4/l2_l3.p4 --port 1=shm:a/b", "'a/b' is no name of a wire"},
                      std::pair{"softnic run --wire folder:/no/such/folder -- true", "/no/such"},
                      std::pair{"softnic run --wire folder:/etc/passwd -- true", "/etc/passwd: this is a file"},
                      std::pair{"softnic run --pcap /no/such/file.pcap -- true", "--pcap /no/such/file.pcap"},
                      std::pair{"softnic run ibv_devices -v", "Put --"}, std::pair{"softnic run", "command"}));

INSTANTIATE_TEST_SUITE_P(Explore, WrongInput,
                         ::testing::Values(std::pair{"explore --scheme nosuch", "nosuch"},
                                           std::pair{"explore --scheme broken/naive --scheme nosuch", "nosuch"},
                                           std::pair{"explore --model nosuch", "nosuch"},
                                           std::pair{"explore --scheme broken/naive --param nosuch=1", "nosuch"},
                                           std::pair{"explore --scheme broken/naive --param atom=7", "atom = '7'"},
                                           std::pair{"explore --scheme broken/naive --param atom", "--param atom"},
                                           std::pair{"explore --scheme broken/naive --param atom=8 --param atom=16",
                                                     "--param atom=16: atom is set already"},
                                           std::pair{"explore --scheme broken/naive --clients 1", "1 clients"},
                                           std::pair{"explore --scheme broken/naive --seed 1", "--seed is for --mode"},
                                           std::pair{"explore --scheme broken/naive --clients 9", "9 clients"},
                                           std::pair{"explore --scheme broken/naive --lines 0", "lines is 0"},
                                           std::pair{"explore --scheme broken/naive --nics 17", "nics is 17"},
                                           std::pair{"explore --scheme broken/naive --executions x", "--executions"},
                                           std::pair{"explore --scheme broken/naive --threads -1", "--threads"},
                                           std::pair{"explore --mode plain", "--mode plain"},
                                           std::pair{"explore --budget -1", "--budget -1"},
                                           std::pair{"explore --budget inf", "--budget inf"},
                                           std::pair{"explore --budget nan", "--budget nan"},
                                           std::pair{"explore --budget 1e11", "--budget 100000000000"},
                                           std::pair{"explore --executions 99999999999999999999", "--executions"},
                                           std::pair{"explore --threads 4294967296", "--threads"},
                                           std::pair{"explore --scheme broken/naive --threads 4097", "threads is 4097"},
                                           std::pair{"explore --without-revocation", "--without-revocation"},
                                           std::pair{"explore --scheme broken/naive --trace t.json", "--trace t.json"},
                                           std::pair{"explore --trace t.json", "--trace t.json"},
                                           std::pair{"explore --svg t.svg", "--svg t.svg"},
                                           std::pair{"explore --scheme broken/naive --model observed --svg "
                                                     "/proc/none/t.svg",
                                                     "/proc/none/t.svg"},
                                           std::pair{"explore --replay /no/such/file", "/no/such/file"},
                                           std::pair{"explore --replay /tmp", "/tmp"},
                                           std::pair{"explore --scheme broken/naive --model observed --trace "
                                                     "/proc/none/t.json",
                                                     "/proc/none/t.json"},
                                           // No cell runs if another one is impossible.
                                           std::pair{"explore --executions 1 --crash --model observed --scheme "
                                                     "latch-exclusive/basic --scheme latch-mcs/combined",
                                                     "stand in a queue"},
                                           std::pair{"explore --executions 1 --model observed --scheme "
                                                     "latch-exclusive/basic --scheme optimistic/switch",
                                                     "the explorer has no switch"},
                                           std::pair{"explore --bogus", "--bogus"}));

INSTANTIATE_TEST_SUITE_P(
    Litmus, WrongInput,
    ::testing::Values(std::pair{"litmus", "files"}, std::pair{"litmus /no/such.litmus", "/no/such.litmus"},
                      std::pair{"litmus /tmp", "/tmp"}, std::pair{"litmus ''", "whose name is empty"},
                      std::pair{"litmus --threads 4294967295 tests/litmus/load-buffering.litmus",
                                "threads is 4294967295"},
                      std::pair{"litmus --model nosuch tests/litmus/load-buffering.litmus", "nosuch"},
                      std::pair{"litmus --budget -1 tests/litmus/load-buffering.litmus", "--budget -1"},
                      std::pair{"litmus --budget nan tests/litmus/load-buffering.litmus", "--budget nan"},
                      std::pair{"litmus --budget inf tests/litmus/load-buffering.litmus", "--budget inf"},
                      // All files are read before the first is explored.
                      std::pair{"litmus tests/litmus/load-buffering.litmus /no/such.litmus", "/no/such.litmus"}));

}  // namespace
}  // namespace sidelatch::tools
